// Runs the programs of the conformance suite: conformance.js N < programs > results, N at a time.

import { readFileSync, writeFileSync } from "node:fs";
import { run } from "./driver.js";

writeFileSync(1, await run(readFileSync(0, "utf8"), Number(process.argv[2])));
