package clients

import (
	"strings"

	"sluice/internal/test/scripted"
)

// leftCases cover what clients do about the export files that are left after an erasure.
var leftCases = []testCase{
	{
		name: "since when files may hold an entity",
		calls: []call{
			do("held_since", `{"id":"ada"}`, `"1969-12-31T23:59:59.999Z"`),
			do("held_since", `{"id":"ada"}`, `"2026-01-02T15:04:05.678Z"`),
			do("held_since", `{"id":"ada"}`, `null`),
			do("held_since", `{"id":"ada"}`, `{"error":{"status":403,"route":"get-entity"}}`),
		},
		script: []scripted.Exchange{
			{Request: "GET /entity/ada", Status: 200, Reply: ada},
			{Request: "GET /event?entity_id=ada&limit=1&order=asc", Status: 200, Reply: page(e1, "c1")},
			{Request: "GET /entity/ada", Status: 200, Reply: ada},
			{Request: "GET /event?entity_id=ada&limit=1&order=asc", Status: 200, Reply: page("", "null")},
			{Request: "GET /entity/ada", Status: 404, Reply: `{"status":404,"code":"not_found","detail":"no"}`},
			{Request: "GET /entity/ada", Status: 403, Reply: `{"status":403,"code":"forbidden","detail":"the key lacks the scope"}`},
		},
	},
	{
		name: "files that may hold an entity",
		calls: []call{
			do("left_files", `{"id":"ada","since":"2026-01-02T15:04:05Z"}`, `[`+job1+`,`+noFileLink+`]`),
			do("left_files", `{"id":"bob","since":"2026-01-02T15:04:05.001Z"}`, `[]`),
			do("left_files", `{"id":"bob"}`, `[`+noFileLink+`]`),
		},
		script: []scripted.Exchange{
			{Request: "GET /export_job?limit=200", Status: 200, Reply: page(job1+","+deleted+","+noLink, "c1")},
			{Request: "GET /export_job?cursor=c1&limit=200", Status: 200, Reply: page(noFileLink+","+failedJob+","+older, "c2")},
			{Request: "GET /export_job?limit=200", Status: 200, Reply: page(job1, "c1")},
			{Request: "GET /export_job?limit=200", Status: 200, Reply: page(job1, "c1")},
			{Request: "GET /export_job?cursor=c1&limit=200", Status: 200, Reply: page(noFileLink, "null")},
		},
	},
}

var (
	noFileLink = strings.Replace(done, `"$url/file"`, "null", 1) // as in lists
	failedJob  = strings.NewReplacer("succeeded", "failed", `"$url/file"`, "null").Replace(done)
	older      = strings.Replace(noFileLink, `"created_at":"2026-01-02T15:04:05.000Z"`, `"created_at":"2026-01-02T15:04:04.999Z"`, 1)
)
