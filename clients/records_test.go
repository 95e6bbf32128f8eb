package clients

import (
	"fmt"
	"strconv"
	"time"

	"sluice/internal/test/scripted"
)

const (
	ada  = `{"id":"ada","type":"person","attributes":{"born":1815,"id":9007199254740993,"ratio":1.5},"revision":3,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:06.000Z"}`
	eve  = `{"id":"eve","type":"entity","attributes":{},"revision":1,"created_at":"2026-01-02T15:04:05.678Z","updated_at":"2026-01-02T15:04:05.678Z"}`
	e1   = `{"id":"e1","name":"n","entity_id":null,"occurred_at":"1969-12-31T23:59:59.999Z","attributes":{},"created_at":"2026-01-02T15:04:05.678Z"}`
	e2   = `{"id":"e2","name":"é<","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{"a":[null,true,{"b":"\u0000"}]},"created_at":"2026-01-02T15:04:05.678Z"}`
	new1 = `{"id":"$id","name":"n","entity_id":null,"occurred_at":"2026-01-02T15:04:05.000Z","attributes":{},"created_at":"2026-01-02T15:04:05.000Z"}`
)

func one(request, body string, status int, reply string) []scripted.Exchange {
	return []scripted.Exchange{{Request: request, Body: body, Status: status, Reply: reply}}
}

// recordCases cover the requests and results of calls that concern records.
var recordCases = []testCase{
	{
		name: "create an entity", key: "slc_0123456789abcdef_secret",
		calls: []call{do("create_entity", `{"id":"ada","type":"person","attributes":{"born":1815,"id":9007199254740993,"ratio":1.5}}`, `[`+ada+`,true]`)},
		script: []scripted.Exchange{{
			Request: "POST /create_entity", Key: "slc_0123456789abcdef_secret", Header: [2]string{"Content-Type", "application/json"},
			Body: `{"id":"ada","type":"person","attributes":{"born":1815,"id":9007199254740993,"ratio":1.5}}`, Status: 201, Reply: ada,
		}},
	},
	{
		name:   "create an entity that exists",
		calls:  []call{do("create_entity", `{"id":"eve"}`, `[`+eve+`,false]`)},
		script: one("POST /create_entity", `{"id":"eve"}`, 200, eve),
	},
	{
		name:   "create an event without an id",
		calls:  []call{do("create_event", `{"name":"n"}`, `[`+new1+`,true]`)},
		script: one("POST /create_event", `{"id":"$id","name":"n"}`, 201, new1),
	},
	{
		name: "create an event with a time of another offset",
		calls: []call{do("create_event", `{"id":"e2","name":"é<","entity_id":"ada","occurred_at":"2026-01-02T17:04:05.000999+02:00","attributes":{"a":[null,true,{"b":"\u0000"}]}}`,
			`[`+e2+`,true]`)},
		script: one("POST /create_event", `{"id":"e2","name":"é<","entity_id":"ada","occurred_at":"2026-01-02T15:04:05.000Z","attributes":{"a":[null,true,{"b":"\u0000"}]}}`, 201, e2),
	},
	{
		name:   "an update",
		calls:  []call{do("update_entity", `{"id":"ada","attributes":{"born":null}}`, ada)},
		script: one("POST /update_entity", `{"id":"ada","attributes":{"born":null}}`, 200, ada),
	},
	{
		name: "a deletion, and an erasure", calls: []call{do("delete_entity", `{"id":"ada"}`, `null`), do("erase_entity", `{"id":"ada"}`, `null`)},
		script: []scripted.Exchange{
			{Request: "POST /delete_entity", Body: `{"id":"ada"}`, Status: 200, Reply: `{"id":"ada","deleted":true}`},
			{Request: "POST /delete_entity", Body: `{"id":"ada","events":true}`, Status: 202, Reply: `{"id":"ada","status":"queued"}`},
		},
	},
	{
		name: "records by id", calls: []call{do("get_entity", `{"id":"ada"}`, ada), do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{{Request: "GET /entity/ada", Status: 200, Reply: ada}, {Request: "GET /event/e1", Status: 200, Reply: e1}},
	},
	{
		name: "errors of the service",
		calls: []call{
			do("get_entity", `{"id":"ada"}`, `{"error":{"kind":"not found","route":"get-entity","tries":1,"status":404,"code":"not_found","fields":[],"retry_after":0,"request_id":"r1","retryable":false}}`),
			do("create_entity", `{"id":"ada"}`, `{"error":{"kind":"conflict","route":"create-entity","status":409,"code":"conflict"}}`),
			do("create_event", `{"id":"e1","name":""}`, `{"error":{"kind":"error","status":422,"code":"invalid_body","fields":["name is required"],"retryable":false}}`),
			do("get_event", `{"id":"e1"}`, `{"error":{"kind":"error","status":404,"code":"wrong_url"}}`),
			do("get_event", `{"id":"e1"}`, `{"error":{"kind":"error","status":403,"code":"","request_id":"gateway","retryable":false}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /entity/ada", Status: 404, Reply: `{"status":404,"code":"not_found","detail":"no","instance":"r1"}`},
			{Request: "POST /create_entity", Body: `{"id":"ada"}`, Status: 409, Reply: `{"status":409,"code":"conflict","detail":"no"}`},
			{Request: "POST /create_event", Body: `{"id":"e1","name":""}`, Status: 422, Reply: `{"code":"invalid_body","detail":"no","errors":[{"field":"name","detail":"is required"}]}`},
			{Request: "GET /event/e1", Status: 404, Reply: `{"code":"wrong_url","detail":"no"}`},
			{Request: "GET /event/e1", Status: 403, Reply: `{"message":"Forbidden"}`, Response: map[string]string{"Apigw-Requestid": "gateway"}},
		},
	},
	{
		name: "ids that could lead to another route",
		calls: []call{
			do("get_entity", `{"id":"a/b"}`, `{"error":{"code":"invalid_id","route":"get-entity","tries":0}}`),
			do("get_event", `{"id":".."}`, `{"error":{"code":"invalid_id","route":"get-event","tries":0}}`),
			do("get_event", `{"id":"a\n"}`, `{"error":{"code":"invalid_id"}}`),
		},
	},
	{
		name: "a batch of which some records fail for good, and others for a time",
		calls: []call{do("create_events", `{"records":[{"id":"e1","name":"n"},{"id":"bad","name":""},{"id":"e2","name":"n"}]}`,
			`[{"created":true,"record":`+e1+`},{"created":false,"error":`+badResult+`},{"created":false,"record":`+e2+`}]`)},
		script: []scripted.Exchange{
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"bad","name":""},{"id":"e2","name":"n"}]}`, Status: 207,
				Reply: `{"results":[{"index":0,"status":201,"event":` + e1 + `},{"index":1,"status":422,"problem":{"code":"invalid_body","detail":"no","errors":[{"field":"name","detail":"is required"}]}},{"index":2,"status":503,"problem":{"code":"store_unavailable","detail":"later"}}]}`},
			{Request: "POST /create_events", Body: `{"events":[{"id":"e2","name":"n"}]}`, Status: 200, Reply: `{"results":[{"index":0,"status":200,"event":` + e2 + `}]}`},
		},
	},
	{
		name: "a batch with a record that keeps failing", config: config{MaxTries: 2},
		calls: []call{do("create_events", `{"records":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`,
			`{"error":{"kind":"error","tries":2,"status":503,"code":"store_unavailable","retryable":true,"results":[{"created":true,"record":`+e1+`},{"created":false,"error":`+laterResult+`}]}}`)},
		script: []scripted.Exchange{
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, Status: 207,
				Reply: `{"results":[{"index":0,"status":201,"event":` + e1 + `},{"index":1,"status":503,"problem":{"code":"store_unavailable","detail":"later"}}]}`},
			{Request: "POST /create_events", Body: `{"events":[{"id":"e2","name":"n"}]}`, Status: 503, Reply: `{"results":[{"index":0,"status":503,"problem":{"code":"store_unavailable","detail":"later"}}]}`},
		},
	},
	{
		name: "a batch that fails as a whole",
		calls: []call{do("create_events", `{"records":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`,
			`{"error":{"kind":"error","tries":1,"status":401,"code":"unauthorized","retryable":false}}`)},
		script: one("POST /create_events", `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, 401, `{"code":"unauthorized","detail":"no"}`),
	},
	{
		name: "a batch all of whose records are invalid",
		calls: []call{do("create_events", `{"records":[{"id":"bad","name":""}]}`,
			`[{"created":false,"error":`+badResult+`}]`)},
		script: one("POST /create_events", `{"events":[{"id":"bad","name":""}]}`, 422,
			`{"status":422,"code":"invalid_body","detail":"no","results":[{"index":0,"status":422,"problem":{"code":"invalid_body","detail":"no","errors":[{"field":"name","detail":"is required"}]}}]}`),
	},
	{
		name: "a batch with results that do not belong to it",
		calls: []call{do("create_events", `{"records":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`,
			`[{"created":true,"record":`+e1+`},{"created":true,"record":`+e2+`}]`)},
		script: []scripted.Exchange{
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, Status: 201, Reply: `{"results":[{"index":0,"status":201,"event":` + e1 + `}]}`},
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, Status: 201, Reply: `{"results":[{"index":1,"status":201,"event":` + e1 + `},{"index":0,"status":201,"event":` + e2 + `}]}`},
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, Status: 201, Reply: `{"results":[{"index":0,"status":201,"event":` + e1 + `},{"index":1,"status":201}]}`},
			{Request: "POST /create_events", Body: `{"events":[{"id":"e1","name":"n"},{"id":"e2","name":"n"}]}`, Status: 201, Reply: `{"results":[{"index":0,"status":201,"event":` + e1 + `},{"index":1,"status":201,"event":` + e2 + `}]}`},
		},
	},
	{
		name:   "a batch whose results leave out a record",
		calls:  []call{do("upsert_entities", `{"records":[{"id":"ada","attributes":{"a":1}},{"type":"t"}]}`, `[{"created":false,"record":`+ada+`},{"created":true}]`)},
		script: one("POST /upsert_entities", `{"entities":[{"id":"ada","attributes":{"a":1}},{"id":"$id","type":"t"}]}`, 207, `{"results":[{"index":0,"status":200,"entity":`+ada+`},{"index":1,"status":201}]}`),
	},
	{
		name: "a batch that replaces and deletes",
		calls: []call{do("upsert_entities", `{"records":[{"id":"ada","type":"person","attributes":{"born":null},"replace":true},{"id":"eve","deleted":true},{"id":"bob","deleted":true,"if_revision":3}]}`,
			`[{"created":false,"record":`+ada+`},{"created":false,"deleted":true},{"created":false,"deleted":true}]`)},
		script: []scripted.Exchange{
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"ada","type":"person","attributes":{"born":null},"replace":true},{"id":"eve","deleted":true},{"id":"bob","deleted":true,"if_revision":3}]}`, Status: 207,
				Reply: `{"results":[{"index":0,"status":200,"entity":` + ada + `},{"index":1,"status":200,"deleted":true},{"index":2,"status":503,"problem":{"code":"store_unavailable","detail":"later"}}]}`},
			{Request: "POST /upsert_entities", Body: `{"entities":[{"id":"bob","deleted":true,"if_revision":3}]}`, Status: 200, Reply: `{"results":[{"index":0,"status":200,"deleted":true}]}`},
		},
	},
	{
		name: "an empty batch", calls: []call{do("create_events", `{"records":[]}`, `[]`)},
	},
}

const badResult = `{"kind":"error","route":"create-events","tries":1,"status":422,"code":"invalid_body","fields":["name is required"],"retry_after":0,"request_id":"","retryable":false,"current_revision":0,"text":"create-events: status 422: no"}`

const laterResult = `{"kind":"error","route":"create-events","tries":2,"status":503,"code":"store_unavailable","fields":[],"retry_after":0,"request_id":"","retryable":true,"current_revision":0,"text":"create-events: gave up after 2 tries: status 503: later"}`

// failureCases cover retries and their bounds.
var failureCases = []testCase{
	{
		name:  "503, a lost and a cut response: the same record is sent again",
		calls: []call{do("create_event", `{"name":"n"}`, `[`+new1+`,false]`)},
		script: []scripted.Exchange{
			{Request: "POST /create_event", Body: `{"id":"$id","name":"n"}`, Status: 503, Reply: `{"code":"store_unavailable"}`},
			{Request: "POST /create_event", Body: `{"id":"$id","name":"n"}`, Fault: scripted.Lost},
			{Request: "POST /create_event", Body: `{"id":"$id","name":"n"}`, Status: 201, Reply: new1, Fault: scripted.Cut},
			{Request: "POST /create_event", Body: `{"id":"$id","name":"n"}`, Status: 200, Reply: new1},
		},
	},
	{
		name: "a 503 with Retry-After", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 503, Reply: `{}`, Response: map[string]string{"Retry-After": "1"}},
			{Request: "GET /event/e1", Status: 200, Reply: e1, After: time.Second},
		},
	},
	{
		name: "a 503 with a date in Retry-After", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 503, Reply: `{}`, Response: map[string]string{"Retry-After": "Sat, 21 Nov 2026 11:00:11 GMT", "Date": "Sat, 21 Nov 2026 11:00:10 GMT"}},
			{Request: "GET /event/e1", Status: 200, Reply: e1, After: time.Second},
		},
	},
	{
		name: "a 429 with Retry-After", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 429, Reply: `{}`, Response: full("Retry-After", "1")},
			{Request: "GET /event/e1", Status: 200, Reply: e1, After: time.Second, Window: true},
		},
	},
	{
		name: "a 429 without Retry-After", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 429, Reply: `{}`, Response: full()},
			{Request: "GET /event/e1", Status: 200, Reply: e1, Window: true},
		},
	},
	{
		name: "a 429 without any header", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 429, Reply: ``, Response: map[string]string{}},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
		},
	},
	{
		name: "a full window", config: config{Share: 1},
		calls: []call{do("get_event", `{"id":"e1"}`, e1), do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 200, Reply: e1, Response: full()},
			{Request: "GET /event/e1", Status: 200, Reply: e1, Window: true},
		},
	},
	{
		name: "a refusal stops all workers", together: true,
		calls: []call{do("get_event", `{"id":"e1"}`, e1), do("get_event", `{"id":"e1"}`, e1), do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 429, Reply: `{}`, Response: full("Retry-After", "2")},
			{Request: "GET /event/e1", Status: 200, Reply: e1, After: 2 * time.Second},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
		},
	},
	{
		name: "a Retry-After beyond the bound",
		calls: []call{
			do("get_event", `{"id":"e1"}`, `{"error":{"kind":"refused","tries":1,"status":429,"retry_after":3600,"retryable":true}}`),
			do("get_event", `{"id":"e1"}`, `{"error":{"kind":"refused","tries":0,"status":429,"retryable":true}}`),
			do("create_event", `{"id":"e1","name":"n"}`, `[`+e1+`,true]`),
		},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 429, Reply: `{}`, Response: full("Retry-After", "3600")},
			{Request: "POST /create_event", Body: `{"id":"e1","name":"n"}`, Status: 201, Reply: e1},
		},
	},
	{
		name: "a quota without room",
		calls: []call{
			do("list_entities", `{"limit":50}`, `{"error":{"kind":"over quota","quota":"records-month","quota_ends":4102444800,"tries":1,"status":429,"text":"list-entity: status 429: 20 are left"}}`),
			do("list_entities", `{"limit":21}`, `{"error":{"kind":"over quota","quota":"records-month","quota_ends":4102444800,"tries":0,"status":429,"text":"list-entity: status 429: an earlier response said that the quota records-month has 20 left until 2100-01-01T00:00:00Z"}}`),
			do("entities", `{}`, `[]`),
			do("get_event", `{"id":"e1"}`, e1),
			do("get_event", `{"id":"e1"}`, `{"error":{"kind":"over quota","tries":0}}`),
			do("create_event", `{"id":"e1","name":"n"}`, `[`+e1+`,true]`),
		},
		script: []scripted.Exchange{
			{Request: "GET /entity?limit=50", Status: 429, Reply: `{"detail":"20 are left"}`, Response: monthly(20, "Retry-After", "86400")},
			{Request: "GET /entity?limit=20", Status: 200, Reply: `{"data":[],"next_cursor":null}`, Response: monthly(20)},
			{Request: "GET /event/e1", Status: 200, Reply: e1, Response: monthly(0)},
			{Request: "POST /create_event", Body: `{"id":"e1","name":"n"}`, Status: 201, Reply: e1},
		},
	},
	{
		name: "a Retry-After of very many digits", calls: []call{do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"status":503,"retry_after":31536000}}`)},
		script: []scripted.Exchange{{Request: "GET /event/e1", Status: 503, Reply: `{}`, Response: map[string]string{"Retry-After": "99999999999999999999999999999999999999999999999999"}}},
	},
	{
		name: "no more tries than the bound", config: config{MaxTries: 2},
		calls: []call{do("get_event", `{"id":"e1"}`, `{"error":{"kind":"error","tries":2,"status":500,"code":"internal_error","request_id":"r2","retryable":true}}`)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 500, Reply: `{"code":"internal_error","detail":"no","instance":"r1"}`},
			{Request: "GET /event/e1", Status: 500, Reply: `{"code":"internal_error","detail":"no","instance":"r2"}`},
		},
	},
	{
		name: "statuses that are final", calls: []call{
			do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"status":501,"retryable":false}}`),
			do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"retryable":false}}`), // pages do not see the status of a redirect
			do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"status":400,"code":"","retryable":false}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 501, Reply: `no`},
			{Request: "GET /event/e1", Status: 308, Response: map[string]string{"Location": "$url/event/e2"}},
			{Request: "GET /event/e1", Status: 400, Reply: `<html>`},
		},
	},
	{
		name: "responses that are not from the service", calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 200, Reply: `<html>sign in</html>`},
			{Request: "GET /event/e1", Status: 204},
			{Request: "GET /event/e1", Status: 408, Reply: `[]`},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
		},
	},
	{
		name: "JSON that is not from the service", config: config{MaxTries: 2},
		calls: []call{
			do("get_event", `{"id":"e1"}`, e1),
			do("create_entity", `{"id":"ada"}`, `{"error":{"kind":"error","tries":2,"status":200,"retryable":true}}`),
			do("list_entities", `{"limit":1}`, page(ada, "null")),
			do("delete_entity", `{"id":"ada"}`, `null`),
		},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Status: 200, Reply: `{"ok":true}`},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
			{Request: "POST /create_entity", Body: `{"id":"ada"}`, Status: 200, Reply: `{}`},
			{Request: "POST /create_entity", Body: `{"id":"ada"}`, Status: 200, Reply: `null`},
			{Request: "GET /entity?limit=1", Status: 200, Reply: `{}`},
			{Request: "GET /entity?limit=1", Status: 200, Reply: page(ada, "null")},
			{Request: "POST /delete_entity", Body: `{"id":"ada"}`, Status: 200, Reply: `{}`},
			{Request: "POST /delete_entity", Body: `{"id":"ada"}`, Status: 200, Reply: `{"id":"ada","deleted":true}`},
		},
	},
	{
		name: "no response within the timeout", config: config{TryTimeout: 3}, calls: []call{do("get_event", `{"id":"e1"}`, e1)},
		script: []scripted.Exchange{
			{Request: "GET /event/e1", Fault: scripted.Hang},
			{Request: "GET /event/e1", Status: 200, Reply: e1[:20], Fault: scripted.Drip},
			{Request: "GET /event/e1", Status: 200, Reply: e1},
		},
	},
	{
		name: "no response within the call's time", config: config{MaxElapsed: 2},
		calls:  []call{do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"status":0,"retryable":true}}`)},
		script: []scripted.Exchange{{Request: "GET /event/e1", Fault: scripted.Hang}},
	},
}

// full returns the headers of a response that leaves no quota. It adds the headers in others, where
// names and values alternate.
func full(others ...string) map[string]string {
	header := map[string]string{"X-RateLimit-Limit": "200", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "+1"}
	for i := 0; i < len(others); i += 2 {
		header[others[i]] = others[i+1]
	}
	return header
}

// monthly returns the headers of a response if a quota, which ends in 2100, has less left than the
// limits per second.
func monthly(left int, others ...string) map[string]string {
	header := full(others...)
	header["X-RateLimit-Limit"], header["X-RateLimit-Remaining"], header["X-RateLimit-Reset"] = "5000", strconv.Itoa(left), "4102444800"
	header["RateLimit"] = fmt.Sprintf(`"records";r=200;t=1, "requests";r=199;t=1, "records-month";r=%d;t=3600`, left)
	header["RateLimit-Policy"] = `"records";q=200;w=1, "requests";q=200;w=1, "records-month";q=5000;w=2678400`
	return header
}
