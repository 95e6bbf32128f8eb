// Written by generate.mjs from openapi.yaml.
export interface components {
    schemas: {
        Health: {
            /** @enum {string} */
            status: "ok";
        };
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
        /**
         * Format: int64
         * @description Change the entity only if it has this revision; 0 only if it does not exist. Otherwise the result is 412.
         */
        IfRevision: number | null;
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
        EntityPage: {
            data: (components["schemas"]["Entity"] | components["schemas"]["Tombstone"] | components["schemas"]["FilteredEntity"])[];
            next_cursor: components["schemas"]["NextCursor"];
            synced_until?: components["schemas"]["SyncedUntil"];
            /** @description The index that served the query. Present only if the request has conditions on attributes. */
            index?: components["schemas"]["EntityIndex"];
        };
        EntityIndexPage: {
            data: components["schemas"]["EntityIndex"][];
            /** @description Always null, because there is only one page. */
            next_cursor: null;
        };
        /** @description An index of the entities of a type. */
        EntityIndex: {
            type: components["schemas"]["Name"];
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
        EventPage: {
            data: (components["schemas"]["Event"] | components["schemas"]["FilteredEvent"])[];
            next_cursor: components["schemas"]["NextCursor"];
            synced_until?: components["schemas"]["SyncedUntil"];
        };
        /** @description The cursor of the next page; null on the last. */
        NextCursor: string | null;
        /**
         * Format: date-time
         * @description The pages of this walk so far contain every change before this time. Pass it as updated_since or created_since of the next walk. It never decreases within a walk. Present only if the request has one of these parameters and the order is oldest first.
         * @example 2026-01-02T15:03:54.678Z
         */
        SyncedUntil: Date;
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
        /** @description In a list of changes with `entity_id`, an event of another entity, or of none. */
        FilteredEvent: {
            id: components["schemas"]["ID"];
            created_at: components["schemas"]["Time"];
            /** @constant */
            deleted: true;
            /** @constant */
            reason: "filter";
        };
        Erasing: {
            id: components["schemas"]["ID"];
            status: components["schemas"]["ErasureStatus"];
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
        Deleted: {
            id: components["schemas"]["ID"];
            /** @constant */
            deleted: true;
        };
        EntityResults: {
            results: components["schemas"]["EntityResult"][];
        };
        /** @description The result that a request with only this element would have. */
        EntityResult: {
            /** @description The position in the batch, from 0. */
            index: number;
            /** @enum {integer} */
            status: 200 | 201 | 412 | 413 | 422 | 500 | 503;
            /** @description The entity after the change. Absent from the last results if all entities together are larger than 2.5 MB. */
            entity?: components["schemas"]["Entity"];
            /**
             * @description Whether there is no such entity after the change.
             * @constant
             */
            deleted?: true;
            problem?: components["schemas"]["ElementProblem"];
        };
        /** @description The result of an element of a batch in which all elements failed. */
        FailedResult: {
            /** @description The position in the batch, from 0. */
            index: number;
            /** @enum {integer} */
            status: 409 | 412 | 413 | 422 | 500 | 503;
            problem: components["schemas"]["ElementProblem"];
        };
        EventResults: {
            results: components["schemas"]["EventResult"][];
        };
        /** @description The result that a request with only this element would have. */
        EventResult: {
            /** @description The position in the batch, from 0. */
            index: number;
            /** @enum {integer} */
            status: 200 | 201 | 409 | 413 | 422 | 500 | 503;
            event?: components["schemas"]["Event"];
            problem?: components["schemas"]["ElementProblem"];
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
        ExportJobPage: {
            data: components["schemas"]["ExportJob"][];
            next_cursor: components["schemas"]["NextCursor"];
        };
        /** @description A null member counts as absent. */
        NewExportJob: {
            /** @description If absent, the service creates a UUIDv7. */
            id?: components["schemas"]["ID"] | null;
            resource: components["schemas"]["ExportResource"];
            format: components["schemas"]["ExportFormat"];
            /** @description Which records to export, by default all. `type` filters entities, and the other members filter events. */
            filters?: {
                type?: components["schemas"]["Name"] | null;
                entity_id?: components["schemas"]["ID"] | null;
                name?: components["schemas"]["Name"] | null;
                from?: components["schemas"]["Time"] | null;
                to?: components["schemas"]["Time"] | null;
            } | null;
            /**
             * @description Whether text that a spreadsheet would execute as a formula gets a leading apostrophe (neutralize, the default) or not (keep, unless it already begins with an apostrophe). Such text begins with = + - @ or a control character and is not a number. It may also follow a semicolon, a tab or a line break within a cell.
             * @enum {string}
             */
            csv_formulas?: "neutralize" | "keep";
        };
        ExportJobReference: {
            id: components["schemas"]["ID"];
        };
        NewSession: {
            /** @description An API key. */
            key: string;
        };
        Usage: {
            /**
             * @description Whose usage this is: `address:` and an address, or `key:` and the id of an API key.
             * @example key:7m3kq2xw9abc
             */
            counted: string;
            /**
             * @description The address in the query, or that of the caller, as the limits count it: for IPv6, the prefix.
             * @example 192.0.2.1
             */
            address: string;
            /**
             * @description What happens to these requests: `limit` refuses requests above the limits, `block` refuses all, and `unlimited` and `observe` refuse none.
             * @enum {string}
             */
            action: "limit" | "block" | "unlimited" | "observe";
            /** @description The lowest of the limits. */
            limit: number;
            limits: components["schemas"]["UsageLimits"];
            /** @description The last 60 seconds, oldest first. The last one has not ended. */
            seconds: components["schemas"]["UsageSecond"][];
            caller: components["schemas"]["Caller"];
        };
        /** @description Who made the request, according to the API key. */
        Caller: {
            /** @example default */
            workspace: string;
            /**
             * @description Null if keys are not required.
             * @example 0123456789ab
             */
            key_id: string | null;
            /** @description All scopes if keys are not required. */
            scopes: ("dashboard" | "erase" | "export" | "import" | "operator")[];
        };
        /** @description The limit of each rule, per second. */
        UsageLimits: {
            records: number;
            imports: number;
            /** @description The limit of each route. */
            requests: number;
        };
        UsageSecond: {
            /** @description Unix time at which the second began. */
            second: number;
            records: number;
            imports: number;
            /**
             * @description The number of requests by operationId of the route. Routes without requests are absent.
             * @example {
             *       "list-entity": 3
             *     }
             */
            requests: {
                [key: string]: number;
            };
        };
        /** @description A null member counts as absent. */
        NewEntity: {
            /** @description If absent, the service creates a UUIDv7. */
            id?: components["schemas"]["ID"] | null;
            /** @description The default is entity. */
            type?: components["schemas"]["Name"] | null;
            attributes?: components["schemas"]["NewAttributes"];
        };
        EntityChanges: {
            /** @description Each element is checked separately; an invalid element does not affect the others. */
            entities: components["schemas"]["EntityChange"][];
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
        EntityPatch: {
            id: components["schemas"]["ID"];
            /** @description Attributes to set, merged at every level; null removes an attribute (RFC 7396). */
            attributes: {
                [key: string]: unknown;
            };
            if_revision?: components["schemas"]["IfRevision"];
        };
        /** @description A null member counts as absent. */
        EntityDeletion: {
            id: components["schemas"]["ID"];
            /**
             * @description Erase the events of the entity too. Cannot be combined with a condition.
             * @default false
             */
            events?: boolean | null;
            if_revision?: components["schemas"]["IfRevision"];
        };
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
        NewEvents: {
            /** @description Each element is checked separately; an invalid element does not affect the others. */
            events: components["schemas"]["NewEvent"][];
        };
        /** @description RFC 9457. */
        Problem: {
            /** @enum {string} */
            type: "about:blank" | "https://iana.org/assignments/http-problem-types#quota-exceeded";
            title: string;
            status: number;
            /** @description What went wrong and, where possible, what to change. */
            detail: string;
            /** @description The request id. Quote it in a report. */
            instance?: string;
            /**
             * @description A stable code for programs.
             * @enum {string}
             */
            code: "access_unavailable" | "address_blocked" | "key_blocked" | "body_too_large" | "conflict" | "cross_origin_request" | "direct_request" | "incomplete_body" | "index_building" | "internal_error" | "invalid_body" | "invalid_client_address" | "invalid_combination" | "invalid_id" | "invalid_if_match" | "invalid_key" | "invalid_parameter" | "malformed_gzip" | "malformed_json" | "malformed_request" | "method_not_allowed" | "missing_key" | "missing_scope" | "no_such_route" | "not_found" | "not_indexed" | "rate_limit_exceeded" | "rate_limiter_unavailable" | "request_timeout" | "revision_mismatch" | "store_unavailable" | "too_many_export_jobs" | "unknown_host" | "unsupported_media_type";
            errors?: components["schemas"]["FieldError"][];
            /** @description For 429, the rules whose quota was exceeded. */
            "violated-policies"?: ("records" | "imports" | "requests")[];
            current_revision?: components["schemas"]["CurrentRevision"];
            /** @description The results of a batch in which all elements failed with the same status. */
            results?: components["schemas"]["FailedResult"][];
        };
        /**
         * Format: int64
         * @description For 412, the revision that the entity has; 0 if it does not exist.
         */
        CurrentRevision: number;
        /** @description Why an element of a batch failed. */
        ElementProblem: {
            /** @enum {string} */
            type: "about:blank";
            title: string;
            /** @enum {integer} */
            status: 409 | 412 | 413 | 422 | 500 | 503;
            /** @description What went wrong and, where possible, what to change. */
            detail: string;
            /** @enum {string} */
            code: "body_too_large" | "conflict" | "internal_error" | "invalid_body" | "revision_mismatch" | "store_unavailable";
            current_revision?: components["schemas"]["CurrentRevision"];
            errors?: components["schemas"]["FieldError"][];
        };
        FieldError: {
            /** @description The member or parameter. */
            field: string;
            /** @description What to change. */
            detail: string;
        };
    };
}
