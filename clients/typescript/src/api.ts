// Written by generate.mjs from openapi.yaml.
export interface components {
    schemas: {
        /**
         * @description Unique in its workspace among records of its kind. "." and ".." are invalid.
         * @example ada
         */
        ID: string;
        /** @example person */
        Name: string;
        /**
         * Format: date-time
         * @description RFC 3339, with any offset. Kept to the millisecond, in UTC, in the years 0000 to 9999.
         * @example 2026-01-02T15:04:05.678Z
         */
        Time: Date;
        /**
         * Format: int64
         * @description 1 after the creation of an entity, and one more after each change, deletion and re-creation included, until the tombstone of the entity is removed.
         * @example 7
         */
        Revision: number;
        /** @description Any JSON object of up to 32 levels. Returned unchanged; numbers keep their digits. */
        Attributes: {
            [key: string]: unknown;
        };
        Entity: {
            id: components["schemas"]["ID"];
            type: components["schemas"]["Name"];
            attributes: components["schemas"]["Attributes"];
            revision: components["schemas"]["Revision"];
            created_at: components["schemas"]["Time"];
            updated_at: components["schemas"]["Time"];
            erased_at?: components["schemas"]["Time"];
        };
        Event: {
            id: components["schemas"]["ID"];
            name: components["schemas"]["Name"];
            /** @description The entity that the event concerns, if any. */
            entity_id: components["schemas"]["ID"] | null;
            occurred_at: components["schemas"]["Time"];
            attributes: components["schemas"]["Attributes"];
            created_at: components["schemas"]["Time"];
        };
        /** @description An index of the entities of a type, or of events by name. */
        EntityIndex: {
            /** @enum {string} */
            resource: "entity" | "event";
            /** @description The type of the entities. Absent for events. */
            type?: components["schemas"]["Name"];
            /** @description The attributes that the index covers, in the order in which it sorts. */
            attributes: components["schemas"]["IndexAttribute"][];
            /** @enum {string} */
            state: "writing" | "building" | "ready" | "removing";
            /** @description The fraction of the index that is built. */
            done: number;
        };
        IndexAttribute: {
            name: string;
            /** @enum {string} */
            value_type: "text" | "number" | "boolean";
            /** @description Whether texts compare regardless of case, as their Unicode case foldings. Absent if not. */
            fold?: boolean;
        };
        /** @description The record of a deleted entity, kept for 30 days. */
        Tombstone: {
            id: components["schemas"]["ID"];
            type: components["schemas"]["Name"];
            revision: components["schemas"]["Revision"];
            created_at?: components["schemas"]["Time"];
            deleted_at: components["schemas"]["Time"];
            /** @constant */
            deleted: true;
            /**
             * @description The events of the entity that were created at or before erased_at are also erased.
             * @constant
             */
            erased?: true;
            erased_at?: components["schemas"]["Time"];
        };
        /** @description In a list of changes with `type`, an entity of another type. A copy of the entities of `type` must drop it. */
        FilteredEntity: {
            id: components["schemas"]["ID"];
            type: components["schemas"]["Name"];
            revision: components["schemas"]["Revision"];
            updated_at: components["schemas"]["Time"];
            /** @constant */
            deleted: true;
            /** @constant */
            reason: "filter";
            erased_at?: components["schemas"]["Time"];
        };
        /** @enum {string} */
        ErasureStatus: "queued" | "running" | "succeeded" | "failed";
        ErasureJob: {
            id: components["schemas"]["ID"];
            status: components["schemas"]["ErasureStatus"];
            /** @description A lower bound if a run was killed, because its last page may not be counted. */
            events_erased: number;
            created_at: components["schemas"]["Time"];
            started_at: components["schemas"]["Time"] | null;
            finished_at: components["schemas"]["Time"] | null;
            /** @description Why the job failed; some events may remain. Null if the job has not failed. */
            error: string | null;
        };
        ExportJob: {
            id: components["schemas"]["ID"];
            resource: components["schemas"]["ExportResource"];
            format: components["schemas"]["ExportFormat"];
            filters: components["schemas"]["ExportFilters"];
            /** @enum {string} */
            status: "queued" | "running" | "succeeded" | "failed" | "cancelled";
            records_written: number;
            /** @description Null until the records have been counted. */
            records_expected: number | null;
            /** @description The number of compressed bytes uploaded so far. */
            size_bytes: number | null;
            created_at: components["schemas"]["Time"];
            started_at: components["schemas"]["Time"] | null;
            finished_at: components["schemas"]["Time"] | null;
            /** @description When the service removes the file. Null until the job has succeeded. */
            file_expires_at: components["schemas"]["Time"] | null;
            /** @description When `POST /delete_export_job` deleted the file. Null if it did not. */
            file_deleted_at: components["schemas"]["Time"] | null;
            /**
             * Format: uri
             * @description URL of the file, which is compressed with gzip. Null if the file does not exist, and in the responses of all routes except `GET /export_job/{id}`.
             */
            download_url: string | null;
            /** @description Why the file does not exist, or no longer exists. Null if `POST /delete_export_job` deleted it. */
            error: string | null;
        };
        /** @enum {string} */
        ExportResource: "entity" | "event";
        /**
         * @description ndjson has a line for each record, as the API returns it. csv (RFC 4180) has a column for each field and each attribute that any of the records has.
         * @enum {string}
         */
        ExportFormat: "ndjson" | "csv";
        /** @description `type` filters entities, and the other members filter events. */
        ExportFilters: {
            type?: components["schemas"]["Name"];
            entity_id?: components["schemas"]["ID"];
            name?: components["schemas"]["Name"];
            from?: components["schemas"]["Time"];
            to?: components["schemas"]["Time"];
        };
        /** @description A null member counts as absent. */
        NewEntity: {
            /** @description If absent, the service creates a UUIDv7. */
            id?: components["schemas"]["ID"] | null;
            /** @description The default is entity. */
            type?: components["schemas"]["Name"] | null;
            attributes?: components["schemas"]["NewAttributes"];
        };
        /** @description What a walk returns can be sent back: the members that the service sets there are ignored. A null member counts as absent. */
        EntityChange: {
            /** @description If absent, the service creates an entity with a UUIDv7. Required with deleted. */
            id?: components["schemas"]["ID"] | null;
            /** @description If absent, an existing entity keeps its type, unless it is replaced, and a new entity has the type entity. */
            type?: components["schemas"]["Name"] | null;
            /** @description Attributes to set, merged at every level; null removes an attribute (RFC 7396). With replace, all attributes as they are to be. */
            attributes?: {
                [key: string]: unknown;
            } | null;
            /**
             * @description Take the place of the entity. Attributes that the element lacks are removed, and those that are null are stored.
             * @default false
             */
            replace?: boolean | null;
            /**
             * @description Delete the entity, if it exists, but never its events. Other members than id and if_revision then have no effect.
             * @default false
             */
            deleted?: boolean | null;
            /** @description Must be absent. In a walk, it says that an entity has left the filter, but the entity may still exist. */
            reason?: null;
            /**
             * Format: int64
             * @description Change the entity only if it has this revision; 0 only if it does not exist. Otherwise the result is 412. Only the first valid element with an id may have it.
             */
            if_revision?: number | null;
            /** @description Ignored. */
            revision?: unknown;
            /** @description Ignored. */
            created_at?: unknown;
            /** @description Ignored. */
            updated_at?: unknown;
            /** @description Ignored. */
            deleted_at?: unknown;
            /** @description Ignored. */
            erased?: unknown;
            /** @description Ignored. */
            erased_at?: unknown;
        };
        /** @description An object of up to 32 levels. If absent, the empty object. */
        NewAttributes: {
            [key: string]: unknown;
        } | null;
        /** @description A null member counts as absent. */
        NewEvent: {
            /** @description If absent, the service creates a UUIDv7. */
            id?: components["schemas"]["ID"] | null;
            name: components["schemas"]["Name"];
            entity_id?: components["schemas"]["ID"] | null;
            /** @description If absent, the time of creation. */
            occurred_at?: components["schemas"]["Time"] | null;
            attributes?: components["schemas"]["NewAttributes"];
        };
        FieldError: {
            /** @description The member or parameter. */
            field: string;
            /** @description What to change. */
            detail: string;
        };
    };
}
