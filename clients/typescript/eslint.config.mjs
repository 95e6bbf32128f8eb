import { defineConfig } from "eslint/config";
import ts from "typescript-eslint";

export default defineConfig([
  { ignores: ["dist", "src/api.ts"] },
  {
    extends: [ts.configs.recommended],
    rules: { "@typescript-eslint/no-unused-vars": ["error", { ignoreRestSiblings: true, varsIgnorePattern: "^_$" }] },
  },
  {
    files: ["src/**/*.ts"],
    extends: [ts.configs.strictTypeChecked, ts.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 60],
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/prefer-nullish-coalescing": "off", // an empty text counts as absent in places
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
]);
