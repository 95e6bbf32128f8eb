/**
 * A client for Sluice that paces itself by the rate limit headers.
 *
 *     import { Client } from "sluice-client";
 *
 *     const client = new Client("http://127.0.0.1:3000", { key: "slc_…" });
 *     await client.createEvent({ name: "order_placed", id: "order-1", entity_id: "ada" });
 */
export { Client } from "./client.js";
export type {
  ByteStream,
  ChangeOneOptions,
  ChangeOptions,
  EntityOptions,
  EventOptions,
  ExportOptions,
  ListOptions,
  NewEventOptions,
  Where,
} from "./options.js";
export type { Config, Options, Try } from "./engine.js";
export {
  ConflictError,
  NotFoundError,
  QuotaError,
  RateLimitError,
  RevisionMismatchError,
  SluiceError,
  UnknownOutcomeError,
} from "./errors.js";
export type { FieldError } from "./errors.js";
export type { WaitOptions } from "./jobs.js";
export { ExactNumber, parseJSON, stringifyJSON } from "./json.js";
export type {
  Attributes,
  BatchResult,
  Change,
  Entity,
  EntityChange,
  ErasureJob,
  Event,
  ExportJob,
  NewEntity,
  NewEvent,
  Page,
} from "./records.js";
export { Records } from "./walk.js";
