package clients

import (
	"context"
	"encoding/json"
	"fmt"

	"sluice/internal/test/scripted"
	"sluice/pkg/client"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// changeEntity makes the calls that change one entity.
func changeEntity(ctx context.Context, c *client.Client, name string, a arguments) (any, error) {
	switch {
	case name == "update":
		return c.UpdateEntityFunc(ctx, a.ID, increment(a.Increment))
	case name == "update_entity" && a.IfRevision != nil:
		return c.UpdateEntityIf(ctx, a.ID, *a.IfRevision, a.Attributes)
	case name == "update_entity":
		return c.UpdateEntity(ctx, a.ID, a.Attributes)
	case a.IfRevision != nil:
		return nil, c.DeleteEntityIf(ctx, a.ID, *a.IfRevision)
	}
	return nil, c.DeleteEntity(ctx, a.ID)
}

// increment returns a function that adds one to an attribute. Without a name, it changes nothing.
func increment(name string) func(entity.Entity) (record.Attributes, error) {
	return func(e entity.Entity) (record.Attributes, error) {
		if name == "" {
			return nil, nil
		}
		var attributes map[string]json.RawMessage
		var n int
		if err := json.Unmarshal(e.Attributes, &attributes); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(attributes[name], &n); err != nil {
			return nil, err
		}
		return json.Marshal(map[string]int{name: n + 1})
	}
}

// counter returns an entity with a count, whose revision is one more.
func counter(n int) string {
	return fmt.Sprintf(`{"id":"c","type":"t","attributes":{"n":%d},"revision":%d,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`, n, n+1)
}

func mismatch(current int) string {
	return fmt.Sprintf(`{"status":412,"code":"revision_mismatch","detail":"no","instance":"r1","current_revision":%d}`, current)
}

// setCount is the request that sets the count of counter(n-1), whose revision is n, to n.
const setCount = `{"id":"c","attributes":{"n":%d},"if_revision":%d}`

func read(n int) scripted.Exchange {
	return scripted.Exchange{Request: "GET /entity/c", Status: 200, Reply: counter(n)}
}

func set(n int, status int, reply string) scripted.Exchange {
	return scripted.Exchange{Request: "POST /update_entity", Body: fmt.Sprintf(setCount, n, n), Status: status, Reply: reply}
}

func lose(e scripted.Exchange) scripted.Exchange {
	e.Fault = scripted.Lost
	return e
}

const later, limiterDown = `{"code":"store_unavailable","detail":"later"}`, `{"code":"rate_limiter_unavailable","detail":"later"}`

// unknownOutcome is the error for a change whose repeat found another revision.
const unknownOutcome = `{"error":{"kind":"unknown outcome","route":"update-entity","tries":2,"status":412,"retryable":false,"text":"update-entity: status 412: the change may have been made: no (request id r1)"}}`

// revisionCases cover changes for a revision, and changes by what is stored.
var revisionCases = []testCase{
	{
		name: "changes for a revision",
		calls: []call{
			do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, counter(2)),
			do("update_entity", `{"id":"c","attributes":{"n":0},"if_revision":0}`,
				`{"error":{"kind":"revision mismatch","route":"update-entity","tries":1,"status":412,"code":"revision_mismatch","retryable":false,"current_revision":9,"text":"update-entity: status 412: no (request id r1)"}}`),
			do("delete_entity", `{"id":"c","if_revision":3}`, `null`),
			do("delete_entity", `{"id":"c","if_revision":3}`, `{"error":{"kind":"revision mismatch","route":"delete-entity","current_revision":0}}`),
		},
		script: []scripted.Exchange{
			set(2, 200, counter(2)),
			set(0, 412, mismatch(9)),
			{Request: "POST /delete_entity", Body: `{"id":"c","if_revision":3}`, Status: 200, Reply: `{"id":"c","deleted":true}`},
			{Request: "POST /delete_entity", Body: `{"id":"c","if_revision":3}`, Status: 412, Reply: mismatch(0)},
		},
	},
	{
		name:   "a lost change for a revision that its repeat makes",
		calls:  []call{do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, counter(2))},
		script: []scripted.Exchange{lose(set(2, 0, "")), set(2, 503, later), set(2, 200, counter(2))},
	},
	{
		name: "changes for a revision whose outcome stays unknown", config: config{MaxTries: 2},
		calls: []call{
			do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, unknownOutcome),
			do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, unknownOutcome),
			do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, `{"error":{"kind":"unknown outcome","tries":2,"status":503,"code":"store_unavailable","retryable":false}}`),
			do("delete_entity", `{"id":"c","if_revision":3}`, `{"error":{"kind":"unknown outcome","route":"delete-entity","status":412,"retryable":false}}`),
		},
		script: []scripted.Exchange{
			set(2, 503, later), set(2, 412, mismatch(3)),
			{Request: "POST /update_entity", Body: fmt.Sprintf(setCount, 2, 2), Status: 200, Reply: counter(2), Fault: scripted.Cut}, set(2, 412, mismatch(3)),
			lose(set(2, 0, "")), set(2, 503, later),
			lose(scripted.Exchange{Request: "POST /delete_entity", Body: `{"id":"c","if_revision":3}`}), {Request: "POST /delete_entity", Body: `{"id":"c","if_revision":3}`, Status: 412, Reply: mismatch(0)},
		},
	},
	{
		name: "errors that come before a change",
		calls: []call{
			do("update_entity", `{"id":"c","attributes":{"n":2},"if_revision":2}`, `{"error":{"kind":"revision mismatch","tries":3,"retryable":false}}`),
		},
		script: []scripted.Exchange{set(2, 503, limiterDown), set(2, 429, `{}`), set(2, 412, mismatch(3))},
	},
	{
		name:   "a change by what is stored, made again because others changed the entity",
		calls:  []call{do("update", `{"id":"c","increment":"n"}`, counter(8)), do("update", `{"id":"c","increment":""}`, counter(8))},
		script: []scripted.Exchange{read(1), set(2, 412, mismatch(4)), read(3), set(4, 412, mismatch(8)), read(7), set(8, 200, counter(8)), read(8)},
	},
	{
		name: "a change by what is stored that others always precede", config: config{MaxTries: 2},
		calls: []call{do("update", `{"id":"c","increment":"n"}`,
			`{"error":{"kind":"revision mismatch","route":"update-entity","tries":2,"status":412,"retryable":true,"current_revision":4,"text":"update-entity: gave up after 2 tries: status 412: no (request id r1)"}}`)},
		script: []scripted.Exchange{read(1), set(2, 412, mismatch(3)), read(2), set(3, 412, mismatch(4))},
	},
	{
		name: "a change by what is stored is not made again if its outcome is unknown",
		calls: []call{
			do("update", `{"id":"c","increment":"n"}`, unknownOutcome),
			do("update", `{"id":"c","increment":"n"}`, counter(2)),
			do("update", `{"id":"c","increment":"n"}`, `{"error":{"kind":"not found","route":"get-entity"}}`),
		},
		script: []scripted.Exchange{
			read(1), lose(set(2, 0, "")), set(2, 412, mismatch(3)),
			lose(read(1)), read(1), lose(set(2, 0, "")), set(2, 200, counter(2)),
			{Request: "GET /entity/c", Status: 404, Reply: `{"status":404,"code":"not_found","detail":"no"}`},
		},
	},
	{
		name: "a batch with records for a revision", config: config{MaxTries: 2},
		calls: []call{do("upsert_entities", `{"records":[{"id":"a","if_revision":0},{"id":"b","if_revision":4},{"id":"c","if_revision":5},{"id":"d"}]}`,
			`{"error":{"kind":"unknown outcome","status":503,"tries":2,"retryable":false,"results":[
				{"created":false,"error":`+batchError("revision mismatch", 1, "status 412: no", 412, "revision_mismatch", 1, false)+`},
				{"created":false,"error":`+batchError("unknown outcome", 1, "status 412: the change may have been made: no", 412, "revision_mismatch", 9, false)+`},
				{"created":false,"error":`+batchError("unknown outcome", 2, "status 503: the change may have been made: later", 503, "store_unavailable", 0, false)+`},
				{"created":false,"error":`+batchError("error", 2, "gave up after 2 tries: status 503: later", 503, "store_unavailable", 0, true)+`}]}}`)},
		script: []scripted.Exchange{
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"a","if_revision":0},{"id":"b","if_revision":4},{"id":"c","if_revision":5},{"id":"d"}]}`, Status: 207,
				Reply: `{"results":[{"index":0,"status":412,"problem":` + batchMismatch(1) + `},{"index":1,"status":503,"problem":` + later + `},{"index":2,"status":503,"problem":` + later + `},{"index":3,"status":503,"problem":` + later + `}]}`},
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"b","if_revision":4},{"id":"c","if_revision":5},{"id":"d"}]}`, Status: 207,
				Reply: `{"results":[{"index":0,"status":412,"problem":` + batchMismatch(9) + `},{"index":1,"status":503,"problem":` + later + `},{"index":2,"status":503,"problem":` + later + `}]}`},
		},
	},
	{
		name: "a batch for a revision whose response is lost",
		calls: []call{do("upsert_entities", `{"records":[{"id":"a","if_revision":0}]}`,
			`[{"created":false,"error":`+batchError("unknown outcome", 1, "status 412: the change may have been made: no", 412, "revision_mismatch", 1, false)+`}]`)},
		script: []scripted.Exchange{
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"a","if_revision":0}]}`, Fault: scripted.Lost},
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"a","if_revision":0}]}`, Status: 412,
				Reply: `{"status":412,"code":"revision_mismatch","detail":"no","results":[{"index":0,"status":412,"problem":` + batchMismatch(1) + `}]}`},
		},
	},
}

func batchMismatch(current int) string {
	return fmt.Sprintf(`{"status":412,"code":"revision_mismatch","detail":"no","current_revision":%d}`, current)
}

// batchError returns the error in the result of a record of upsert_entities.
func batchError(kind string, tries int, text string, status int, code string, current int, retryable bool) string {
	return fmt.Sprintf(`{"kind":%q,"route":"upsert-entities","tries":%d,"status":%d,"code":%q,"fields":[],"retry_after":0,"request_id":"","retryable":%t,"current_revision":%d,"text":%q}`,
		kind, tries, status, code, retryable, current, "upsert-entities: "+text)
}
