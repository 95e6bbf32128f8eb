// What the service takes, stores and returns.

import type { components } from "./api.js";
import type { SluiceError } from "./errors.js";

type Schemas = components["schemas"];

export type Attributes = Schemas["Attributes"];
export type Entity = Omit<Schemas["Entity"], "erased_at">;
export type Event = Schemas["Event"];
export type ExportJob = Schemas["ExportJob"];
export type ExportFilters = Schemas["ExportFilters"];
export type ErasureJob = Schemas["ErasureJob"];

/** An entity to create. If it has no id, it gets a UUIDv7. */
export type NewEntity = Schemas["NewEntity"];

/** An event to create. If it has no id, it gets a UUIDv7. */
export type NewEvent = Schemas["NewEvent"];

/** An entity to create, to merge, to replace or to delete. */
export type EntityChange = Pick<
  Schemas["EntityChange"],
  "id" | "type" | "attributes" | "replace" | "deleted" | "if_revision"
>;

/** The latest change of an entity. */
export type Change = {
  id: string;
  type: string;
  revision: number;
  /** A copy should drop the entity's events that were created up to then. */
  erased_at?: Date;
} & (
  | { deleted: false; /** The entity as it is now. */ entity: Entity }
  | {
      /** A copy should remove the entity. */
      deleted: true;
      /** Absent if the entity exists, but the filter does not select it. */
      deleted_at?: Date;
      /** "filter" if the entity exists, but the filter does not select it. */
      reason?: "filter";
    }
);

/** The result of one record of a batch. */
export interface BatchResult<T> {
  id: string;
  /** As stored; undefined after an error, or if the service left it out. */
  record?: T;
  /** False if the record already existed. */
  created: boolean;
  /** Whether there is no such entity now. */
  deleted: boolean;
  error?: SluiceError;
}

/** One page of a list. */
export interface Page<T> {
  data: T[];
  /** Null on the last page. */
  next_cursor: string | null;
  /** Which index served where. */
  index?: Schemas["EntityIndex"];
}

/** A page of a walk. */
export interface WalkPage<T> extends Page<T> {
  synced_until?: Date;
  last?: Date | undefined; // time of the latest change of the page
  sent?: Date | undefined; // when the service sent the page, by its clock
}

/** Members of a response, before times are converted. */
export type Members = Record<string, unknown>;

function asTime(value: unknown): Date {
  const at = new Date(value as string);
  if (Number.isNaN(at.getTime())) throw new TypeError(`no time: ${String(value)}`);
  return at;
}

/** Returns the members of a response with its times. Their names end with _at. */
function withTimes(members: Members): unknown {
  if (typeof members["id"] !== "string") throw new TypeError("a record without an id");
  const copy: Members = { ...members };
  for (const [name, value] of Object.entries(members)) {
    if (name.endsWith("_at") && value !== null) copy[name] = asTime(value);
  }
  return copy;
}

export const entity = (members: Members): Entity => withTimes(members) as Entity;
export const event = (members: Members): Event => withTimes(members) as Event;
export const erasureJob = (members: Members): ErasureJob => withTimes(members) as ErasureJob;

/** Checks the response to a deletion. */
export const deleted = (members: Members): void => void withTimes(members);

export function exportJob(members: Members): ExportJob {
  const job = withTimes(members) as ExportJob;
  const { from, to } = job.filters;
  return { ...job, filters: { ...job.filters, ...(from && { from: asTime(from) }), ...(to && { to: asTime(to) }) } };
}

export function change(members: Members): Change {
  const { erased_at, ...record } = withTimes(members) as Schemas["Entity"] &
    Partial<Schemas["Tombstone"] & Schemas["FilteredEntity"]>;
  const { id, type, revision, deleted_at, reason } = record;
  const common = { id, type, revision, ...(erased_at && { erased_at }) };
  if (!(members["deleted"] as boolean | undefined)) return { ...common, deleted: false, entity: record };
  return { ...common, deleted: true, ...(deleted_at && { deleted_at }), ...(reason && { reason }) };
}

/** Returns the event in a walk; undefined if the filter does not select it. */
export function newEvent(members: Members): Event | undefined {
  return members["reason"] ? undefined : event(members);
}

/** Returns a page of records. Those for which record returns undefined are left out. */
export function page<T>(members: Members, record: (members: Members) => T | undefined): WalkPage<T> {
  const data = members["data"] as Members[];
  const last = data.at(-1);
  return {
    data: data.map(record).filter((r): r is NonNullable<typeof r> => r !== undefined),
    next_cursor: members["next_cursor"] as string | null,
    ...(members["index"] !== undefined && { index: members["index"] as Schemas["EntityIndex"] }),
    ...(members["synced_until"] !== undefined && {
      synced_until: asTime(members["synced_until"]),
      last: last && asTime(last["deleted_at"] ?? last["updated_at"] ?? last["created_at"]),
    }),
  };
}

/** Returns the text of an id, which must not turn the path of a request into that of another route. */
export function isID(id: string): boolean {
  return /^[A-Za-z0-9._:-]{1,128}$/.test(id) && id !== "." && id !== "..";
}

/** Returns a UUIDv7 (RFC 9562, section 5.7). */
export function newID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  new DataView(bytes.buffer).setUint32(2, Date.now() % 2 ** 32);
  new DataView(bytes.buffer).setUint16(0, Math.floor(Date.now() / 2 ** 32));
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
