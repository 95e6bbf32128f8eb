package clients

import (
	"strings"

	"sluice/internal/test/scripted"
)

// generous has the headers of a response that leaves a lot of quota, so that page sizes do not
// depend on timing.
var generous = map[string]string{"RateLimit-Policy": `"records";q=800;w=1, "requests";q=800;w=1`, "RateLimit": `"records";r=800;t=1, "requests";r=800;t=1`, "X-RateLimit-Reset": "+1"}

func page(records, cursor string) string {
	if cursor != "null" {
		cursor = `"` + cursor + `"`
	}
	return `{"data":[` + records + `],"next_cursor":` + cursor + `}`
}

var foundByBorn = strings.TrimSuffix(page(ada, "null"), "}") + `,"index":{"resource":"entity","type":"person","attributes":[{"name":"born","value_type":"number"}],"state":"ready","done":1}}`

var listCases = []testCase{
	{
		name:   "a page",
		calls:  []call{do("list_entities", `{"type":"a person","limit":2,"cursor":"c+1"}`, page(ada+","+eve, "c2"))},
		script: one("GET /entity?cursor=c%2B1&limit=2&type=a+person", "", 200, page(ada+","+eve, "c2")),
	},
	{
		// The first page has the default size, because the limit is still unknown. Each later page
		// is as large as one step allows: a quarter of the client's share of the limit.
		name: "all pages, of sizes that follow the limits", config: config{Share: 0.5},
		calls: []call{do("entities", `{"type":"t"}`, `[`+ada+`,`+eve+`]`)},
		script: []scripted.Exchange{
			{Request: "GET /entity?limit=50&type=t", Status: 200, Reply: page(ada, "c1"), Response: generous},
			{Request: "GET /entity?cursor=c1&limit=100&type=t", Status: 200, Reply: page("", "c2"), Response: generous},
			{Request: "GET /entity?cursor=c2&limit=100&type=t", Status: 200, Reply: page(eve, "null"), Response: generous},
		},
	},
	{
		name: "a page is no larger than the share", config: config{Share: 0.1},
		calls: []call{do("list_entities", `{"limit":200}`, page("", "c1")), do("list_entities", `{"limit":200,"cursor":"c1"}`, page("", "null"))},
		script: []scripted.Exchange{
			{Request: "GET /entity?limit=200", Status: 200, Reply: page("", "c1"), Response: generous},
			{Request: "GET /entity?cursor=c1&limit=80", Status: 200, Reply: page("", "null"), Response: generous},
		},
	},
	{
		name: "entities found by attributes",
		calls: []call{
			do("entities", `{"type":"person","where":{"attribute":"e mail","equal":"ada+1@example.com"},"limit":1}`, `[`+ada+`,`+eve+`]`),
			do("list_entities", `{"type":"person","where":{"attribute":"born","gte":1815,"lt":1900.5,"descending":true},"limit":9}`, foundByBorn),
			do("list_entities", `{"type":"person","where":{"attribute":"paid","equal":false},"limit":9}`, page(ada, "null")),
			do("list_entities", `{"type":"person","where":[{"attribute":"paid","equal":true},{"attribute":"born","gte":1815,"descending":true}],"limit":9}`, page(ada, "null")),
			do("list_entities", `{"type":"person","where":{"attribute":"name","prefix":"é"},"limit":9}`, `{"error":{"status":400,"code":"not_indexed","tries":1,"retryable":false}}`),
			do("list_entities", `{"type":"person","where":{"attribute":"name","gt":"A","lte":"B"},"limit":9}`, `{"error":{"kind":"error","status":409,"code":"index_building","tries":1,"retryable":false}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /entity?attributes.e mail=ada%2B1@example.com&limit=1&type=person", Status: 200, Reply: page(ada, "c1")},
			{Request: "GET /entity?attributes.e mail=ada%2B1@example.com&cursor=c1&limit=1&type=person", Status: 200, Reply: page(eve, "null")},
			{Request: "GET /entity?attributes.born[gte]=1815&attributes.born[lt]=1900.5&limit=9&order=desc&type=person", Status: 200, Reply: foundByBorn},
			{Request: "GET /entity?attributes.paid=false&limit=9&type=person", Status: 200, Reply: page(ada, "null")},
			{Request: "GET /entity?attributes.born[gte]=1815&attributes.paid=true&limit=9&order=desc&type=person", Status: 200, Reply: page(ada, "null")},
			{Request: "GET /entity?attributes.name[prefix]=%C3%A9&limit=9&type=person", Status: 400, Reply: `{"code":"not_indexed","detail":"no"}`},
			{Request: "GET /entity?attributes.name[gt]=A&attributes.name[lte]=B&limit=9&type=person", Status: 409, Reply: `{"code":"index_building","detail":"42 % is done"}`},
		},
	},
	{
		name:   "events of a name",
		calls:  []call{do("events", `{"name":"order paid","limit":7}`, `[`+e2+`]`)},
		script: one("GET /event?limit=7&name=order paid", "", 200, page(e2, "null")),
	},
	{
		name:   "events of a time",
		calls:  []call{do("events", `{"entity_id":"ada","since":"2026-01-02T00:00:00+01:00","until":"2026-01-03T00:00:00.123Z","ascending":true,"limit":7}`, `[`+e2+`]`)},
		script: one("GET /event?entity_id=ada&from=2026-01-01T23:00:00.000Z&limit=7&order=asc&to=2026-01-03T00:00:00.123Z", "", 200, page(e2, "null")),
	},
	{
		name:   "a cursor that leads to the same page",
		calls:  []call{do("entities", `{"limit":1,"cursor":"c1"}`, `{"error":{"kind":"error","retryable":false}}`)},
		script: one("GET /entity?cursor=c1&limit=1", "", 200, page(ada, "c1")),
	},
	{
		name: "changes of entities",
		calls: []call{do("changes", `{"since":"2026-01-02T00:00:00Z","type":"person","include_deleted":true,"limit":4}`,
			`{"synced_until":"2026-01-02T16:00:00.000Z","data":[
				{"id":"ada","type":"person","revision":3,"deleted":false,"entity":`+ada+`},
				{"id":"bob","type":"person","revision":2,"deleted":true,"deleted_at":"2026-01-02T15:30:00.000Z","erased_at":"2026-01-02T15:30:00.000Z"},
				{"id":"car","type":"thing","revision":5,"deleted":true,"reason":"filter"},
				{"id":"ada","type":"person","revision":3,"deleted":false,"entity":`+ada+`,"erased_at":"2026-01-02T15:00:00.000Z"}]}`)},
		script: []scripted.Exchange{
			{Request: "GET /entity?include_deleted=true&limit=4&type=person&updated_since=2026-01-02T00:00:00.000Z", Status: 200,
				Reply: `{"data":[` + ada + `,{"id":"bob","type":"person","revision":2,"created_at":"2026-01-02T15:00:00.000Z","deleted_at":"2026-01-02T15:30:00.000Z","deleted":true,"erased":true,"erased_at":"2026-01-02T15:30:00.000Z"}],"next_cursor":"c1","synced_until":"2026-01-02T16:00:00.000Z"}`},
			{Request: "GET /entity?cursor=c1&include_deleted=true&limit=4&type=person&updated_since=2026-01-02T00:00:00.000Z", Status: 200,
				Reply: `{"data":[{"id":"car","type":"thing","revision":5,"updated_at":"2026-01-02T15:30:00.000Z","deleted":true,"reason":"filter"},` + strings.TrimSuffix(ada, "}") + `,"erased_at":"2026-01-02T15:00:00.000Z"}],"next_cursor":null,"synced_until":"2026-01-02T16:00:00.000Z"}`},
		},
	},
	{
		name:   "changes without those that were deleted",
		calls:  []call{do("changes", `{"since":"1970-01-01T00:00:00Z","include_deleted":false,"limit":1}`, `{"synced_until":"2026-01-02T16:00:00.000Z","data":[{"id":"ada","type":"person","revision":3,"deleted":false,"entity":`+ada+`}]}`)},
		script: one("GET /entity?limit=1&updated_since=1970-01-01T00:00:00.000Z", "", 200, `{"data":[`+ada+`],"next_cursor":null,"synced_until":"2026-01-02T16:00:00.000Z"}`),
	},
	{
		name:  "new events of an entity",
		calls: []call{do("new_events", `{"since":"2026-01-02T00:00:00Z","entity_id":"ada","limit":2}`, `{"synced_until":"2026-01-02T16:00:00.000Z","data":[`+e2+`]}`)},
		script: one("GET /event?created_since=2026-01-02T00:00:00.000Z&entity_id=ada&include_deleted=true&limit=2", "", 200,
			`{"data":[{"id":"e1","created_at":"2026-01-02T15:04:05.000Z","deleted":true,"reason":"filter"},`+e2+`],"next_cursor":null,"synced_until":"2026-01-02T16:00:00.000Z"}`),
	},
}

const (
	job1     = `{"id":"j1","resource":"event","format":"csv","filters":{"entity_id":"ada","from":"2026-01-02T00:00:00.000Z"},"status":"running","records_written":5,"records_expected":9,"size_bytes":null,"created_at":"2026-01-02T15:04:05.000Z","started_at":"2026-01-02T15:04:06.000Z","finished_at":null,"file_expires_at":null,"file_deleted_at":null,"download_url":null,"error":null}`
	done     = `{"id":"j1","resource":"event","format":"csv","filters":{},"status":"succeeded","records_written":9,"records_expected":9,"size_bytes":10,"created_at":"2026-01-02T15:04:05.000Z","started_at":"2026-01-02T15:04:06.000Z","finished_at":"2026-01-02T15:04:07.000Z","file_expires_at":"2026-01-09T15:04:07.000Z","file_deleted_at":null,"download_url":"$url/file","error":null}`
	noLink   = `{"id":"j1","resource":"event","format":"csv","filters":{},"status":"succeeded","records_written":9,"records_expected":9,"size_bytes":10,"created_at":"2026-01-02T15:04:05.000Z","started_at":"2026-01-02T15:04:06.000Z","finished_at":"2026-01-02T15:04:07.000Z","file_expires_at":"2026-01-09T15:04:07.000Z","file_deleted_at":null,"download_url":null,"error":"The file expired."}`
	deleted  = `{"id":"j1","resource":"event","format":"csv","filters":{},"status":"succeeded","records_written":9,"records_expected":9,"size_bytes":10,"created_at":"2026-01-02T15:04:05.000Z","started_at":"2026-01-02T15:04:06.000Z","finished_at":"2026-01-02T15:04:07.000Z","file_expires_at":"2026-01-09T15:04:07.000Z","file_deleted_at":"2026-01-03T15:04:07.000Z","download_url":null,"error":null}`
	erasing  = `{"id":"ada","status":"queued","events_erased":0,"created_at":"2026-01-02T15:04:05.000Z","started_at":null,"finished_at":null,"error":null}`
	erased   = `{"id":"ada","status":"succeeded","events_erased":120,"created_at":"2026-01-02T15:04:05.000Z","started_at":"2026-01-02T15:04:05.000Z","finished_at":"2026-01-02T15:04:06.000Z","error":null}`
	otherKey = `{"code":"forbidden","detail":"the key lacks the scope"}`
)

// jobCases cover jobs, downloads and source, a call that returns the service and the workspace.
var jobCases = []testCase{
	{
		name: "export jobs",
		calls: []call{
			do("create_export_job", `{"id":"j1","resource":"event","format":"csv","entity_id":"ada","since":"2026-01-02T00:00:00Z"}`, `[`+job1+`,true]`),
			do("wait_for_export_job", `{"id":"j1"}`, noLink),
			do("cancel_export_job", `{"id":"j1"}`, job1),
			do("delete_export_job", `{"id":"j1"}`, deleted),
			do("export_jobs", `{"limit":1}`, `[`+job1+`,`+noLink+`]`),
		},
		script: []scripted.Exchange{
			{Request: "POST /create_export_job", Body: `{"id":"j1","resource":"event","format":"csv","filters":{"entity_id":"ada","from":"2026-01-02T00:00:00.000Z"}}`, Status: 201, Reply: job1},
			{Request: "GET /export_job/j1", Status: 200, Reply: job1},
			{Request: "GET /export_job/j1", Status: 200, Reply: noLink},
			{Request: "POST /cancel_export_job", Body: `{"id":"j1"}`, Status: 200, Reply: job1},
			{Request: "POST /delete_export_job", Body: `{"id":"j1"}`, Status: 200, Reply: deleted},
			{Request: "GET /export_job?limit=1", Status: 200, Reply: page(job1, "c1")},
			{Request: "GET /export_job?cursor=c1&limit=1", Status: 200, Reply: page(noLink, "null")},
		},
	},
	{
		name: "a download from an offset", key: "slc_0_k",
		calls: []call{do("download_export", `{"id":"j1","offset":2}`, `"23456789"`), do("download_export", `{"id":"j1","offset":10}`, `""`)},
		script: []scripted.Exchange{
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=2-"}, Status: 206, Response: map[string]string{"Content-Range": "bytes 2-9/10"}, Reply: "23456789"},
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
		},
	},
	{
		name: "a download continues where it was cut off, with a new link and without the key", key: "slc_0_k",
		noPage: true, // Chromium drops what it has received
		calls:  []call{do("download_export", `{"id":"j1","offset":2}`, `"23456789"`)},
		script: []scripted.Exchange{
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=2-"}, Status: 206, Response: map[string]string{"Content-Range": "bytes 2-9/10"}, Reply: "23456789", Fault: scripted.Cut},
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=6-"}, Status: 403, Reply: "expired"},
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=6-"}, Status: 206, Response: map[string]string{"Content-Range": "bytes 5-9/10"}, Reply: "56789"},
			{Request: "GET /export_job/j1", Key: "slc_0_k", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=6-"}, Status: 200, Response: map[string]string{}, Reply: "0123456789"},
		},
	},
	{
		name: "a download of a file that does not come", config: config{MaxTries: 2},
		calls: []call{do("download_export", `{"id":"j1"}`, `{"error":{"route":"download","tries":2,"status":404,"retryable":true}}`)},
		script: []scripted.Exchange{
			{Request: "GET /export_job/j1", Status: 200, Reply: done},
			{Request: "GET /file", Status: 404, Reply: "no"},
			{Request: "GET /export_job/j1", Status: 200, Reply: done},
			{Request: "GET /file", Status: 404, Reply: "no"},
		},
	},
	{
		name: "a download that is cut off before its first byte", config: config{MaxTries: 2},
		calls: []call{do("download_export", `{"id":"j1","offset":9}`, `{"error":{"route":"download","tries":2,"status":206,"retryable":true}}`)},
		script: []scripted.Exchange{
			{Request: "GET /export_job/j1", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=9-"}, Status: 206, Response: map[string]string{"Content-Range": "bytes 9-9/10"}, Reply: "9", Fault: scripted.Cut},
			{Request: "GET /export_job/j1", Status: 200, Reply: done},
			{Request: "GET /file", Header: [2]string{"Range", "bytes=9-"}, Status: 206, Response: map[string]string{"Content-Range": "bytes 9-9/10"}, Reply: "9", Fault: scripted.Cut},
		},
	},
	{
		name: "a download without a file",
		calls: []call{
			do("download_export", `{"id":"j1"}`, `{"error":{"route":"download","retryable":false,"text":"download: the export job is running, so there is no file"}}`),
			do("download_export", `{"id":"j1"}`, `{"error":{"route":"download","retryable":false,"text":"download: The file expired."}}`),
			do("download_export", `{"id":"j1","offset":11}`, `{"error":{"route":"download","retryable":false,"text":"download: the file has 10 bytes, so it cannot be read from byte 11"}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /export_job/j1", Status: 200, Reply: job1},
			{Request: "GET /export_job/j1", Status: 200, Reply: noLink},
			{Request: "GET /export_job/j1", Status: 200, Reply: done},
		},
	},
	{
		name: "an erasure job", calls: []call{do("wait_for_erasure_job", `{"id":"ada"}`, erased)},
		script: []scripted.Exchange{{Request: "GET /erasure_job/ada", Status: 200, Reply: erasing}, {Request: "GET /erasure_job/ada", Status: 200, Reply: erased}},
	},
	{
		name: "a source that changes", calls: []call{
			do("source", `{}`, `"s1/default"`),
			do("get_event", `{"id":"e1"}`, e1),
			do("get_event", `{"id":"e1"}`, `{"error":{"tries":1,"retryable":false}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /export_job?limit=1", Status: 403, Reply: otherKey, Response: map[string]string{"Sluice-Source": "s1/default"}},
			{Request: "GET /event/e1", Status: 200, Reply: e1, Response: map[string]string{"Sluice-Source": "s1/default"}},
			{Request: "GET /event/e1", Status: 200, Reply: e1, Response: map[string]string{"Sluice-Source": "s2/default"}},
		},
	},
}
