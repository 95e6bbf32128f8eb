// What calls take, besides records.

import type { Options } from "./engine.js";
import { stringifyJSON } from "./json.js";
import type { ExportFilters } from "./records.js";

type Value = string | boolean | number | bigint;

/**
 * Selects entities by an attribute, which the operator of the service must have indexed.
 * `{ attribute: "email", equal: "ada@example.com" }` selects a value,
 * `{ attribute: "born", gte: 1815, lt: 1900 }` a range, and `{ attribute: "name", prefix: "Ad" }`
 * texts that begin with "Ad". Of several, for an index on several attributes, all but one must
 * select a value.
 */
export interface Where {
  attribute: string;
  equal?: Value;
  gt?: Value;
  gte?: Value;
  lt?: Value;
  lte?: Value;
  prefix?: string;
  /** Greatest value first. */
  descending?: boolean;
}

export interface ListOptions extends Options {
  /** Maximum number of records on a page, 1 to 200; by default, the pacer chooses. A request never asks for more than the limits have left. */
  limit?: number;
  /** The next_cursor of the previous page. */
  cursor?: string | undefined;
}

export interface EntityOptions extends ListOptions {
  /** Only entities of this type; required with where. */
  type?: string;
  /** Only entities whose attributes match, in order of their values. */
  where?: Where | readonly Where[];
}

export interface EventOptions extends ListOptions {
  /** Only events of this entity. */
  entity_id?: string;
  /** Only events of this name, which needs an index. Not together with entity_id. */
  name?: string;
  /** Only events that occurred at this time or later. */
  since?: Date;
  /** Only events that occurred before this time. */
  until?: Date;
  /** Oldest first. */
  ascending?: boolean;
}

export interface ChangeOptions extends ListOptions {
  /** Only changes at this time or later. */
  since: Date;
  /** Only entities of this type. Others are returned as deleted, with the reason "filter". It requires include_deleted. */
  type?: string;
  /** Whether to include entities that were deleted in the last 30 days; true by default. */
  include_deleted?: boolean;
}

export interface NewEventOptions extends ListOptions {
  /** Only events that were created at this time or later. */
  since: Date;
  /** Only events of this entity; others are left out, but still cost a record each. */
  entity_id?: string;
}

export interface ExportOptions extends Options, ExportFilters {
  id?: string;
  format?: "ndjson" | "csv";
  csv_formulas?: "neutralize" | "keep";
}

export interface ChangeOneOptions extends Options {
  /** Change only this revision of the entity; 0 if none may exist. */
  if_revision?: number;
}

/** What fetch returns as a body. */
export type ByteStream = NonNullable<Response["body"]>;

/** Returns the query parameters of conditions. */
export function conditions(where: Where | readonly Where[]): Record<string, string> {
  const query: Record<string, string> = {};
  for (const { attribute, descending, ...operators } of [where].flat()) {
    const given = Object.entries(operators).filter(([, value]: [string, Value | undefined]) => value !== undefined);
    if (given.length === 0) throw new TypeError(`where needs a value or a bound of ${attribute}`);
    for (const [operator, value] of given) {
      const name = `attributes.${attribute}${operator === "equal" ? "" : `[${operator}]`}`;
      if (name in query) throw new TypeError(`where has two conditions for ${name}`);
      query[name] = typeof value === "string" ? value : stringifyJSON(value);
    }
    if (descending) query["order"] = "desc";
  }
  return query;
}
