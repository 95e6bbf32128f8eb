import { Batch } from "./batch.js";
import { decoded, Engine, Retries, sleep, type Config, type Options, type Read, type Request } from "./engine.js";
import { dateOf, errorOf, RevisionMismatchError } from "./errors.js";
import { download, heldSince, leftFiles, source, streamOf, waitFor, type WaitOptions } from "./jobs.js";
import { stringifyJSON } from "./json.js";
import {
  conditions,
  type ByteStream,
  type ChangeOneOptions,
  type ChangeOptions,
  type EntityOptions,
  type EventOptions,
  type ExportOptions,
  type ListOptions,
  type NewEventOptions,
} from "./options.js";
import * as records from "./records.js";
import type {
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
import { Records } from "./walk.js";

/**
 * Calls one service. A program should have only one client, because its calls share a pacer.
 *
 * A call waits until the limits have room for it, then sends its request. It repeats the request
 * after status 408, 429 or 5xx (but not 501 or 505) and after a lost response. That is safe, because
 * a new record without an id gets a UUIDv7 before the first try. Every method rejects with a
 * SluiceError if its call fails, and with signal.reason if options.signal is aborted.
 */
export class Client {
  readonly #engine: Engine;

  /** Creates a client for a service, such as http://127.0.0.1:3000 or https://api.example.com/stage. It sends no request. */
  constructor(url: string, config: Config = {}) {
    this.#engine = new Engine(url, config);
  }

  // Entities

  /**
   * Creates an entity. The boolean is false if it already existed with the same content. It rejects
   * with a ConflictError if the id exists with different content.
   */
  async createEntity(entity: NewEntity, options: Options = {}): Promise<[stored: Entity, created: boolean]> {
    return this.#create("create-entity", "import", entity, records.entity, options);
  }

  /**
   * Creates up to 100 entities, or merges attributes into entities that already exist. A new type
   * replaces the type of an existing entity. A record with replace takes the entity's place instead,
   * and one with deleted deletes it. Results and errors are as in createEvents, but if all entities
   * together are large, the last results contain no entity. The error of a result with if_revision may
   * be one of those of updateEntity.
   */
  async upsertEntities(entities: readonly EntityChange[], options: Options = {}): Promise<BatchResult<Entity>[]> {
    return new Batch("entities", records.entity, { route: "upsert-entities", path: "/upsert_entities" }, entities).send(
      this.#engine,
      options,
    );
  }

  /**
   * Merges a patch into the attributes of an entity; null removes an attribute (RFC 7396). It rejects
   * with a NotFoundError if no entity has the id; with if_revision, with a RevisionMismatchError if the
   * entity has another revision or does not exist, and with an UnknownOutcomeError if the change may
   * have been made.
   */
  async updateEntity(id: string, patch: Attributes, options: ChangeOneOptions = {}): Promise<Entity> {
    return this.#change("update-entity", { id, attributes: patch }, records.entity, options);
  }

  /**
   * Changes an entity by what is stored, so that no change of others is lost. It reads the entity, and
   * merges the patch that func returns if the entity still has the same revision. Otherwise, it reads
   * again and calls func again. If func returns null, nothing is changed. Each call of func costs one
   * record and, unless it returns null, one import.
   *
   * If a response is lost, the same change for the same revision is sent again. If the entity then has
   * another revision, that may be due to this change, so func is not called again, and the call rejects
   * with an UnknownOutcomeError. If others changed the entity maxTries times or for maxElapsedMs, it
   * rejects with a RevisionMismatchError, which is retryable.
   */
  async update(
    id: string,
    func: (entity: Entity) => Attributes | null | Promise<Attributes | null>,
    options: Options = {},
  ): Promise<Entity> {
    const rounds = new Retries(this.#engine.config);
    for (;;) {
      const entity = await this.getEntity(id, options);
      const patch = await func(entity);
      if (patch === null) return entity;
      try {
        return await this.updateEntity(id, patch, { ...options, if_revision: entity.revision });
      } catch (error) {
        if (!(error instanceof RevisionMismatchError)) throw error;
        const failure = Object.assign({}, error, { retryable: true });
        const wait = rounds.failed(failure);
        if (wait === undefined) throw errorOf(failure, error.route, rounds.count);
        await sleep(wait, options.signal);
      }
    }
  }

  /** Deletes an entity, if there is one. With if_revision, see updateEntity. */
  async deleteEntity(id: string, options: ChangeOneOptions = {}): Promise<void> {
    await this.#change("delete-entity", { id }, records.deleted, options);
  }

  /** Returns an entity. It costs one record. It rejects with a NotFoundError if no entity has the id. */
  async getEntity(id: string, options: Options = {}): Promise<Entity> {
    return this.#get("get-entity", "export", "/entity/", id, records.entity, options);
  }

  /** Returns a page of entities in order of id. Each one costs a record. */
  async listEntities({ type, where, ...options }: EntityOptions = {}): Promise<Page<Entity>> {
    return this.#list(
      "list-entity",
      "export",
      "/entity",
      { type, ...(where && conditions(where)) },
      records.entity,
      options,
    );
  }

  /** Iterates over the entities of all pages of listEntities. */
  entities(options: EntityOptions = {}): Records<Entity> {
    return new Records((cursor) => this.listEntities({ ...options, cursor }), options.cursor);
  }

  /**
   * Iterates over the entities that have changed, in order of their latest change. Start the next walk
   * at the iterator's syncedUntil, also if this one was interrupted. An entity that changes meanwhile
   * can appear again. If changes come faster than they are read, the walk ends five minutes after it
   * has passed the time at which it began.
   */
  changes({ since, type, include_deleted = true, ...options }: ChangeOptions): Records<Change> {
    const query = { updated_since: since.toISOString(), type, include_deleted: include_deleted ? "true" : undefined };
    return new Records(
      (cursor) => this.#list("list-entity", "export", "/entity", query, records.change, { ...options, cursor }),
      options.cursor,
    );
  }

  // Events

  /**
   * Creates an event. The boolean is false if it already existed with the same content. It rejects
   * with a ConflictError if the id exists with different content.
   */
  async createEvent(event: NewEvent, options: Options = {}): Promise<[stored: Event, created: boolean]> {
    return this.#create("create-event", "import", event, records.event, options);
  }

  /**
   * Creates up to 100 events in one import call of at most 1 MB. It returns one result for each event,
   * in order. A retry sends only the events that failed with a retryable error. The result of an event
   * that the service rejects has an error. So has that of an event that JSON cannot represent (NaN, an
   * invalid Date), which is not sent. If some events have no final result, the call rejects with a
   * SluiceError, whose results has a result for each event.
   */
  async createEvents(events: readonly NewEvent[], options: Options = {}): Promise<BatchResult<Event>[]> {
    return new Batch("events", records.event, { route: "create-events", path: "/create_events" }, events).send(
      this.#engine,
      options,
    );
  }

  /** Returns an event. It costs one record. It rejects with a NotFoundError if no event has the id. */
  async getEvent(id: string, options: Options = {}): Promise<Event> {
    return this.#get("get-event", "export", "/event/", id, records.event, options);
  }

  /** Returns a page of events, newest first. Each one costs a record. */
  async listEvents({ entity_id, name, since, until, ascending, ...options }: EventOptions = {}): Promise<Page<Event>> {
    const query = {
      entity_id,
      name,
      from: since?.toISOString(),
      to: until?.toISOString(),
      order: ascending ? "asc" : undefined,
    };
    return this.#list("list-event", "export", "/event", query, records.event, options);
  }

  /** Iterates over the events of all pages of listEvents. */
  events(options: EventOptions = {}): Records<Event> {
    return new Records((cursor) => this.listEvents({ ...options, cursor }), options.cursor);
  }

  /**
   * Iterates over the events that were created at or after a time, in order of creation. Start the
   * next walk at the iterator's syncedUntil, as with changes.
   */
  newEvents({ since, entity_id, ...options }: NewEventOptions): Records<Event> {
    const query = { created_since: since.toISOString(), entity_id, include_deleted: entity_id && "true" };
    return new Records(
      (cursor) => this.#list("list-event", "export", "/event", query, records.newEvent, { ...options, cursor }),
      options.cursor,
    );
  }

  // Jobs

  /**
   * Creates a job that writes records to a file, for exports that are too large for lists. Entities
   * are filtered by type, and events by the other filters. The boolean is false if the job already
   * existed. It rejects with a ConflictError if the id exists with different content.
   */
  async createExportJob(
    resource: "entity" | "event",
    options: ExportOptions = {},
  ): Promise<[job: ExportJob, created: boolean]> {
    const { id, format = "ndjson", csv_formulas, signal, ...filters } = options;
    const job = { id, resource, format, filters, csv_formulas };
    return this.#create("create-export-job", "general", job, records.exportJob, { signal });
  }

  /** Returns an export job, with a link to its file if it has succeeded. It rejects with a NotFoundError if no job has the id. */
  async getExportJob(id: string, options: Options = {}): Promise<ExportJob> {
    return this.#get("get-export-job", "general", "/export_job/", id, records.exportJob, options);
  }

  /** Returns a page of export jobs, newest first. */
  async listExportJobs(options: ListOptions = {}): Promise<Page<ExportJob>> {
    return this.#list("list-export-job", "general", "/export_job", {}, records.exportJob, options);
  }

  /** Iterates over the export jobs of all pages. */
  exportJobs(options: ListOptions = {}): Records<ExportJob> {
    return new Records((cursor) => this.listExportJobs({ ...options, cursor }), options.cursor);
  }

  /** Cancels an export job. It rejects with a ConflictError if the job has succeeded or failed, and with a NotFoundError if no job has the id. */
  async cancelExportJob(id: string, options: Options = {}): Promise<ExportJob> {
    return this.#post("cancel-export-job", "general", { id }, decoded(records.exportJob), options);
  }

  /** Deletes the file of an export job that has succeeded. It rejects with a ConflictError if the job is queued or running, and with a NotFoundError if no job has the id. */
  async deleteExportJob(id: string, options: Options = {}): Promise<ExportJob> {
    return this.#post("delete-export-job", "general", { id }, decoded(records.exportJob), options);
  }

  /** Polls an export job until it has ended, and returns it. Only options.signal bounds how long it waits. */
  async waitForExportJob(id: string, options: WaitOptions<ExportJob> = {}): Promise<ExportJob> {
    return waitFor(() => this.getExportJob(id, options), options);
  }

  /**
   * Returns an export job's gzip file, starting at a byte offset. After an interruption, it continues
   * at the same byte with a new link. The stream fails if no further byte arrives in maxTries
   * consecutive tries or within maxElapsedMs.
   */
  downloadExport(id: string, { offset = 0, signal }: Options & { offset?: number } = {}): ByteStream {
    return streamOf(download(this, this.#engine, id, offset, signal)) as ByteStream;
  }

  /** Deletes an entity, and starts a job that erases its events; see waitForErasureJob. */
  async eraseEntity(id: string, options: Options = {}): Promise<void> {
    await this.#post("delete-entity", "import", { id, events: true }, decoded(records.deleted), options);
  }

  /** Returns the job that erases the events of an entity. It rejects with a NotFoundError if there is none, or if it ended more than 30 days ago. */
  async getErasureJob(id: string, options: Options = {}): Promise<ErasureJob> {
    return this.#get("get-erasure-job", "general", "/erasure_job/", id, records.erasureJob, options);
  }

  /** Polls an erasure job until it has ended, as waitForExportJob does. */
  async waitForErasureJob(id: string, options: WaitOptions<ErasureJob> = {}): Promise<ErasureJob> {
    return waitFor(() => this.getErasureJob(id, options), options);
  }

  /**
   * Returns since when export files may hold an entity or its events: since the creation of the entity
   * or of its first event, whichever is earlier. It is undefined if there is no such entity: the entity
   * may have existed at any time. Call it before eraseEntity, and leftFiles after it. It costs two
   * records.
   */
  async heldSince(id: string, options: Options = {}): Promise<Date | undefined> {
    return heldSince(this, id, options);
  }

  /**
   * Returns the export jobs, newest first, whose files may hold an entity or its events. since is from
   * heldSince. Such a job has a file, or is still writing one. cancelExportJob and deleteExportJob
   * remove the file.
   */
  async leftFiles(id: string, since: Date | undefined, options: Options = {}): Promise<ExportJob[]> {
    return leftFiles(this, id, since, options);
  }

  /**
   * Returns the source of the records: the id of the service's data, "/" and the workspace. A program
   * that keeps a copy must compare the source with that of its earlier runs. The URL does not show
   * whether the key is for another workspace, or whether the service's data was deleted or restored.
   * After this call, a call fails if its response has another source.
   */
  async source(options: Options = {}): Promise<string> {
    return source(this.#engine, options);
  }

  // The requests. The path of a route that changes something follows from its name.

  async #post<T>(
    route: string,
    routeClass: Request["class"],
    body: object,
    read: Read<T>,
    options: Options,
  ): Promise<T> {
    return this.#engine.call(posted(route, routeClass, body), read, options);
  }

  async #create<T>(
    route: string,
    routeClass: Request["class"],
    record: { id?: string | null | undefined },
    convert: (m: records.Members) => T,
    options: Options,
  ): Promise<[T, boolean]> {
    const body = { ...record, id: record.id ?? records.newID() };
    return this.#post(
      route,
      routeClass,
      body,
      decoded((members, { status }) => [convert(members), status === 201]),
      options,
    );
  }

  async #change<T>(
    route: string,
    body: object,
    convert: (m: records.Members) => T,
    { if_revision, signal }: ChangeOneOptions,
  ): Promise<T> {
    if (if_revision === undefined) return this.#post(route, "import", body, decoded(convert), { signal });
    return this.#engine.conditional(posted(route, "import", { ...body, if_revision }), decoded(convert), { signal });
  }

  async #get<T>(
    route: string,
    routeClass: Request["class"],
    path: string,
    id: string,
    convert: (m: records.Members) => T,
    options: Options,
  ): Promise<T> {
    if (!records.isID(id)) {
      const detail = `the id must be 1 to 128 of the characters A-Z a-z 0-9 . _ : - and neither "." nor "..", not "${id}"`;
      throw errorOf({ detail, code: "invalid_id" }, route, 0);
    }
    return this.#engine.call({ route, class: routeClass, path: path + id, records: 1 }, decoded(convert), options);
  }

  async #list<T>(
    route: string,
    routeClass: Request["class"],
    path: string,
    query: Request["query"],
    convert: (m: records.Members) => T | undefined,
    { limit, cursor, signal }: ListOptions,
  ): Promise<records.WalkPage<T>> {
    if (limit !== undefined && !(limit >= 1))
      throw new RangeError(`the limit of a page must be 1 to 200, not ${limit}`);
    const request: Request = {
      route,
      class: routeClass,
      path,
      query: { ...query, cursor, limit },
      records: limit ?? 0,
      paced: routeClass === "export",
    };
    return this.#engine.call(
      request,
      decoded((members, { headers }) => ({ ...records.page(members, convert), sent: dateOf(headers) })),
      { signal },
    );
  }
}

function posted(route: string, routeClass: Request["class"], body: object): Request {
  return { route, class: routeClass, path: `/${route.replaceAll("-", "_")}`, body: stringifyJSON(body) };
}
