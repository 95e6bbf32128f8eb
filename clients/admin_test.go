package clients

import "sluice/internal/test/scripted"

const (
	key1   = `{"id":"7m3kq2xw9abc","name":"n","workspace":"acme","scopes":["export"],"plan":"","from":["192.0.2.0/24"],"made_by":"2b7xk9mq4def","counted_as":"","status":"active","created_at":"2026-01-02T15:04:05.678Z","expires_at":"2026-02-02T15:04:05.678Z","revoked_at":null}`
	made1  = `{"id":"7m3kq2xw9abc","key":"slc_7m3kq2xw9abc_s","name":"n","workspace":"acme","scopes":["export"],"plan":"","from":["192.0.2.0/24"],"made_by":"2b7xk9mq4def","counted_as":"","status":"active","created_at":"2026-01-02T15:04:05.678Z","expires_at":"2026-02-02T15:04:05.678Z","revoked_at":null}`
	row1   = `{"plan":"pro","action":"limit","records":1000,"note":"99 a month","updated_at":"2026-01-02T15:04:05Z"}`
	index1 = `{"resource":"entity","type":"person","attributes":[{"name":"email","value_type":"text","fold":true}],"state":"writing","done":0}`
	audit1 = `{"id":"a1","at":"2026-01-02T15:04:05.678Z","workspace":"","by":"key:2b7xk9mq4def","from":"192.0.2.1","action":"set-limit","of":"plan:pro","old":null,"new":{"records":1000},"result":"done"}`
)

// adminCases are for the clients that have the routes of administration.
var adminCases = []testCase{
	{
		name: "API keys",
		calls: []call{
			do("create_api_key", `{"scopes":["export"],"name":"n","workspace":"acme","sources":["192.0.2.0/24"],"expires_at":"2026-02-02T15:04:05.678Z"}`, made1),
			do("api_keys", `{"workspace":"acme","limit":1}`, `[`+key1+`,`+key1+`]`),
			do("set_api_key_plan", `{"id":"7m3kq2xw9abc","plan":"pro"}`, key1),
			do("set_api_key_plan", `{"id":"7m3kq2xw9abc","plan":null}`, key1),
			do("revoke_api_key", `{"id":"7m3kq2xw9abc"}`, key1),
			do("revoke_api_key", `{"id":"7m3kq2xw9abc","made":true}`, key1),
			do("revoke_api_key", `{"id":"aaaaaaaaaaaa"}`, `{"error":{"kind":"not found","route":"revoke-api-key"}}`),
		},
		script: []scripted.Exchange{
			{Request: "POST /create_api_key", Body: `{"name":"n","workspace":"acme","scopes":["export"],"from":["192.0.2.0/24"],"expires_at":"2026-02-02T15:04:05.678Z"}`, Status: 201, Reply: made1},
			{Request: "GET /api_key?limit=1&workspace=acme", Status: 200, Reply: `{"data":[` + key1 + `],"next_cursor":"c"}`},
			{Request: "GET /api_key?cursor=c&limit=1&workspace=acme", Status: 200, Reply: `{"data":[` + key1 + `],"next_cursor":null}`},
			{Request: "POST /set_api_key_plan", Body: `{"id":"7m3kq2xw9abc","plan":"pro"}`, Status: 200, Reply: key1},
			{Request: "POST /set_api_key_plan", Body: `{"id":"7m3kq2xw9abc","plan":null}`, Status: 200, Reply: key1},
			{Request: "POST /revoke_api_key", Body: `{"id":"7m3kq2xw9abc"}`, Status: 200, Reply: key1},
			{Request: "POST /revoke_api_key", Body: `{"id":"7m3kq2xw9abc","made":true}`, Status: 200, Reply: key1},
			{Request: "POST /revoke_api_key", Body: `{"id":"aaaaaaaaaaaa"}`, Status: 404, Reply: `{"status":404,"code":"not_found","detail":"no"}`},
		},
	},
	{
		name:   "a key whose response is lost is not made again",
		calls:  []call{do("create_api_key", `{"scopes":["export"]}`, `{"error":{"kind":"unknown outcome","route":"create-api-key","tries":1,"retryable":false}}`)},
		script: one("POST /create_api_key", `{"scopes":["export"]}`, 500, `{"status":500,"code":"internal_error","detail":"no"}`),
	},
	{
		name: "limits, indexes and the audit trail",
		calls: []call{
			do("set_limit", `{"row":`+row1+`}`, row1),
			do("list_limits", `{}`, `[`+row1+`]`),
			do("remove_limit", `{"row":`+row1+`}`, `{"plan":"pro"}`),
			do("create_entity_index", `{"type":"person","attributes":[{"name":"email","value_type":"text","fold":true}]}`, index1),
			do("remove_entity_index", `{"type":"person","attributes":["email"],"workspace":"acme"}`, index1),
			do("audit", `{"by":"key:2b7x","of":"plan:","limit":2}`, `[`+audit1+`]`),
		},
		script: []scripted.Exchange{
			{Request: "POST /set_limit", Body: row1, Status: 200, Reply: row1},
			{Request: "GET /limit", Status: 200, Reply: `{"data":[` + row1 + `],"next_cursor":null}`},
			{Request: "POST /remove_limit", Body: `{"plan":"pro"}`, Status: 200, Reply: `{"plan":"pro"}`},
			{Request: "POST /create_entity_index", Body: `{"type":"person","attributes":[{"name":"email","value_type":"text","fold":true}]}`, Status: 201, Reply: index1},
			{Request: "POST /remove_entity_index", Body: `{"workspace":"acme","type":"person","attributes":["email"]}`, Status: 200, Reply: index1},
			{Request: "GET /audit?by=key%3A2b7x&limit=2&of=plan%3A", Status: 200, Reply: `{"data":[` + audit1 + `],"next_cursor":null}`},
		},
	},
}
