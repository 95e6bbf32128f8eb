package functions_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/httpapi"
)

// step is a request to a function, and what the response must be.
type step struct {
	function, method, path, body string
	status                       int
	want                         string
}

// stepsOf returns requests to every function, in order. mine is the value of the header
// Authorization.
func stepsOf(t *testing.T, mine string, bucket *s3Proxy) []step {
	t.Helper()
	steps := []step{
		{"create-entity", "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"n":12345678901234567890.10}}`, 201, `"n":12345678901234567890.10`},
		{"create-entity", "POST", "/create_entity", `{"id":"ada","type":"person","attributes":{"n":12345678901234567890.10}}`, 200, `"id":"ada"`},
		{"create-entity", "POST", "/create_entity", `{"id":"ada","type":"robot"}`, 409, `"code":"conflict"`},
		{"get-entity", "GET", "/entity/ada", "", 200, `"type":"person"`},
		{"get-entity", "GET", "/entity/bob", "", 404, `"code":"not_found"`},
		{"list-entity", "GET", "/entity", "", 200, `"next_cursor":null`},
		{"create-event", "POST", "/create_event", `{"name":"signed_up","entity_id":"ada"}`, 201, `"entity_id":"ada"`},
		{"create-event", "POST", "/create_event", `{"name":`, 400, `"code":"malformed_json"`},
		// The first list is filtered by entity, so it takes a single query. Without that filter,
		// the shards are queried concurrently, on more connections than init opens.
		{"list-event", "GET", "/event?entity_id=ada&limit=1", "", 200, `"name":"signed_up"`},
		{"list-event", "GET", "/event", "", 200, `"name":"signed_up"`},
		{"list-event", "GET", "/event?entity_id=ada&from=2000-01-01T00:00:00Z&to=2100-01-01T00:00:00Z&order=asc", "", 200, `"name":"signed_up"`},
		{"list-event", "GET", "/event?name=signed_up", "", 200, `"name":"signed_up"`},
		{"list-event", "GET", "/event?entity_id=bob", "", 200, `{"data":[],"next_cursor":null}`},
		{"list-event", "GET", "/event?order=up", "", 400, `"code":"invalid_parameter"`},
		{"create-events", "POST", "/create_events", `{"events":[{"id":"e1","name":"n","attributes":{"n":1.50}},{"id":"e2","name":"n"}]}`, 201, `"index":1,"status":201`},
		{"create-events", "POST", "/create_events", `{"events":[{"id":"e1","name":"n","attributes":{"n":1.50}},{"id":"e2","name":"n"}]}`, 200, `"index":1,"status":200`},
		{"create-events", "POST", "/create_events", `{"events":[{"id":"e1","name":"m"},{"id":"e3","name":"n"},{}]}`, 207, `"index":1,"status":201`},
		{"create-events", "POST", "/create_events", `{"events":[]}`, 422, `"code":"invalid_body"`},
		{"get-event", "GET", "/event/e1", "", 200, `"attributes":{"n":1.50}`},
		{"get-event", "GET", "/event/e9", "", 404, `"code":"not_found"`},
		{"list-entity", "GET", "/entity?type=person", "", 200, `"id":"ada"`},
		{"list-entity", "GET", "/entity?type=robot", "", 200, `{"data":[],"next_cursor":null}`},
		{"update-entity", "POST", "/update_entity", `{"id":"ada","attributes":{"m":2.50}}`, 200, `"attributes":{"n":12345678901234567890.10,"m":2.50}`},
		{"update-entity", "POST", "/update_entity", `{"id":"ada","attributes":{"m":3},"if_revision":1}`, 412, `"current_revision":2`},
		{"update-entity", "POST", "/update_entity", `{"id":"bob","attributes":{}}`, 404, `"code":"not_found"`},
		{"upsert-entities", "POST", "/upsert_entities", `{"entities":[{"id":"ada","type":"robot","attributes":{"m":null}},{"id":"eve","attributes":{"n":1.50}},{}]}`, 207, `"index":1,"status":201,"entity":{"id":"eve","type":"entity","attributes":{"n":1.50}`},
		{"upsert-entities", "POST", "/upsert_entities", `{"entities":[{"id":"ada","type":"robot"},{"id":"eve","attributes":{"n":1.50}}]}`, 200, `"index":0,"status":200,"entity":{"id":"ada","type":"robot","attributes":{"n":12345678901234567890.10}`},
		{"upsert-entities", "POST", "/upsert_entities", `{"entities":[{"id":"bob","attributes":{"n":null},"replace":true}]}`, 201, `"attributes":{"n":null}`},
		{"upsert-entities", "POST", "/upsert_entities", `{"entities":[{"id":"bob","deleted":true},{"id":"never","deleted":true}]}`, 200, `{"results":[{"index":0,"status":200,"deleted":true},{"index":1,"status":200,"deleted":true}]}`},
		{"upsert-entities", "POST", "/upsert_entities", `{"entities":[{"id":"a b"}]}`, 422, `"code":"invalid_body"`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"ada"}`, 200, `{"id":"ada","deleted":true}`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"ada"}`, 200, `{"id":"ada","deleted":true}`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"ada","if_revision":0}`, 200, `{"id":"ada","deleted":true}`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"eve","if_revision":7}`, 412, `"code":"revision_mismatch"`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"eve","events":true}`, 202, `{"id":"eve","status":"queued"}`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"eve","events":true}`, 202, `{"id":"eve","status":"queued"}`},
		{"get-erasure-job", "GET", "/erasure_job/eve", "", 200, `"status":"queued"`},
		{"get-erasure-job", "GET", "/erasure_job/ada", "", 404, `"code":"not_found"`},
		{"list-entity-index", "GET", "/entity_index", "", 200, `{"resource":"entity","type":"found","attributes":[{"name":"a","value_type":"text"}],"state":"ready","done":1},`},
		{"create-entity", "POST", "/create_entity", `{"id":"found","type":"found","attributes":{"a":"1","b":"1","c":"1","d":"1"}}`, 201, `"id":"found"`},
		{"list-entity", "GET", "/entity?type=found&attributes.a=1", "", 200, `"id":"found"`},
		{"list-entity", "GET", "/entity?type=found&attributes.b%5Bgte%5D=1", "", 200, `"id":"found"`},
		{"list-entity", "GET", "/entity?type=found&attributes.c%5Bprefix%5D=&order=desc", "", 200, `"id":"found"`},
		{"list-entity", "GET", "/entity?type=found&attributes.d%5Blt%5D=1", "", 200, `{"data":[],"next_cursor":null,"index":{`},
		{"delete-entity", "POST", "/delete_entity", `{"id":"found"}`, 200, `{"id":"found","deleted":true}`},
		{"list-entity", "GET", "/entity?type=robot&attributes.n=1", "", 400, `"code":"not_indexed"`},
		{"get-entity", "GET", "/entity/ada", "", 404, `"code":"not_found"`},
		{"list-entity", "GET", "/entity?updated_since=2000-01-01T00:00:00Z&include_deleted=true&order=desc", "", 200, `"deleted":true`},
		{"list-entity", "GET", "/entity?updated_since=2000-01-01T00:00:00Z&include_deleted=true", "", 200, `"synced_until":"20`},
		{"list-event", "GET", "/event?created_since=2000-01-01T00:00:00Z&order=desc&entity_id=ada&include_deleted=true", "", 200, `"name":"signed_up"`},
		{"list-event", "GET", "/event?created_since=2000-01-01T00:00:00Z", "", 200, `"synced_until":"20`},
		{"list-event", "GET", "/event?created_since=2000-01-01T00:00:00Z&from=2000-01-01T00:00:00Z", "", 422, `"code":"invalid_combination"`},
		{"create-export-job", "POST", "/create_export_job", `{"id":"x","resource":"event","format":"csv"}`, 201, `"status":"queued"`},
		{"create-export-job", "POST", "/create_export_job", `{"id":"x","resource":"event","format":"csv"}`, 200, `"id":"x"`},
		{"create-export-job", "POST", "/create_export_job", `{"id":"x","resource":"event","format":"ndjson"}`, 409, `"code":"conflict"`},
		{"list-export-job", "GET", "/export_job?limit=1", "", 200, `"id":"x"`},
		{"get-export-job", "GET", "/export_job/x", "", 200, `"download_url":null`},
		{"get-export-job", "GET", "/export_job/done", "", 200, `"download_url":"` + bucket.url},
		{"get-export-job", "GET", "/export_job/y", "", 404, `"code":"not_found"`},
		{"cancel-export-job", "POST", "/cancel_export_job", `{"id":"x"}`, 200, `"status":"cancelled"`},
		{"cancel-export-job", "POST", "/cancel_export_job", `{"id":"y"}`, 404, `"code":"not_found"`},
		{"delete-export-job", "POST", "/delete_export_job", `{"id":"y"}`, 404, `"code":"not_found"`},
		{"delete-export-job", "POST", "/delete_export_job", `{"id":"done"}`, 200, `"file_deleted_at":"20`},
		{"delete-export-job", "POST", "/delete_export_job", `{"id":"done"}`, 200, `"download_url":null`},
		{"usage", "GET", "/usage", "", 200, `"requests":{"`},
		{"usage", "GET", "/usage?address=2001:db8::1", "", 200, `"address":"2001:db8::/64"`},
		{"usage", "GET", "/usage?identities=month", "", 200, `"identities":{"period":"month"`},
		{"usage", "GET", "/usage?address=here", "", 400, `"code":"invalid_parameter"`},
		{"dashboard", "GET", "/dashboard", "", 200, "<!doctype html>"},
		{"dashboard", "GET", "/dashboard/0123456789abcdef/app.js", "", 200, "class ApiError"},
		{"dashboard", "GET", "/dashboard/nothing.js", "", 404, `"code":"no_such_route"`},
		{"dashboard", "POST", "/dashboard/session", `{"key":"` + strings.TrimPrefix(mine, "Bearer ") + `"}`, 204, ""},
		{"dashboard", "DELETE", "/dashboard/session", "", 204, ""},
		{"openapi", "GET", "/openapi.yaml", "", 200, "openapi: 3.1"},
		{"health", "GET", "/health", "", 200, `{"status":"ok"}`},
		{"not-found", "GET", "/nowhere", "", 404, `"code":"no_such_route"`},
		{"get-entity", "DELETE", "/entity/ada", "", 405, `"code":"method_not_allowed"`},
	}
	for _, r := range httpapi.Routes() { // the others get their sample event
		if !r.Admin() && !slices.ContainsFunc(steps, func(s step) bool { return s.function == r.Name }) {
			ev := lambdatest.Sample(t, r.Name)
			steps = append(steps, step{r.Name, ev.RequestContext.HTTP.Method, ev.RawPath + "?" + ev.RawQueryString, ev.Body, http.StatusOK, ""})
		}
	}
	return steps
}

// adminSteps returns requests to every function of administration, in order.
func adminSteps(t *testing.T, keys keyring) []step {
	t.Helper()
	id := strings.Split(keys.create(t, "mine", access.Admin, access.Operator), "_")[1]
	return []step{
		{"create-api-key", "POST", "/create_api_key", `{"scopes":["export"],"workspace":"other","from":["192.0.2.0/24"]}`, 201, `"key":"slc_`},
		{"create-api-key", "POST", "/create_api_key", `{"scopes":["export"],"plan":"none"}`, 409, `"code":"no_such_plan"`},
		{"list-api-key", "GET", "/api_key", "", 200, `"from":["192.0.2.0/24"]`},
		{"list-api-key", "GET", "/api_key?workspace=mine&limit=1", "", 200, `"next_cursor":"`},
		{"set-api-key-plan", "POST", "/set_api_key_plan", `{"id":"` + id + `","plan":null}`, 200, `"plan":""`},
		{"set-api-key-plan", "POST", "/set_api_key_plan", `{"id":"aaaaaaaaaaaa","plan":null}`, 404, `"code":"not_found"`},
		{"set-limit", "POST", "/set_limit", `{"plan":"pro","records":1000}`, 200, `"plan":"pro"`},
		{"set-limit", "POST", "/set_limit", `{"plan":"pro"}`, 422, `"code":"invalid_body"`},
		{"list-limit", "GET", "/limit", "", 200, `"records":1000`},
		{"remove-limit", "POST", "/remove_limit", `{"plan":"pro"}`, 200, `{"plan":"pro"}`},
		{"remove-limit", "POST", "/remove_limit", `{"cidr":"192.0.2.0/24"}`, 404, `"code":"not_found"`},
		{"create-entity-index", "POST", "/create_entity_index", `{"type":"robot","attributes":[{"name":"a"}]}`, 201, `"state":"writing"`},
		{"create-entity-index", "POST", "/create_entity_index", `{"type":"robot","attributes":[{"name":"a"}]}`, 200, `"state":"writing"`},
		{"create-entity-index", "POST", "/create_entity_index", `{"type":"robot","attributes":[{"name":"a","fold":true}]}`, 409, `"code":"index_conflict"`},
		{"remove-entity-index", "POST", "/remove_entity_index", `{"type":"robot","attributes":["a"]}`, 200, `"state":"removing"`},
		{"remove-entity-index", "POST", "/remove_entity_index", `{"type":"robot","attributes":["b"]}`, 404, `"code":"not_found"`},
		{"list-audit", "GET", "/audit?limit=1", "", 200, `"result":"done"`},
		{"list-audit", "GET", "/audit?workspace=mine&by=key:&of=index:", "", 200, `"action":"remove-entity-index"`},
		{"revoke-api-key", "POST", "/revoke_api_key", `{"id":"` + id + `","made":true}`, 200, `"status":"revoked"`},
		{"revoke-api-key", "POST", "/revoke_api_key", `{"id":"aaaaaaaaaaaa"}`, 404, `"code":"not_found"`},
	}
}
