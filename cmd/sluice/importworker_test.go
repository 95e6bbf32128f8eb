package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"sluice/internal/test/browsertest"
	"sluice/internal/test/importcases"
)

// pageRows is what the page read of a file.
type pageRows struct {
	Records []struct {
		Line int64
		JSON string
	}
	Rejects  []importcases.Reject
	Failure  string // why the reading ended
	Valid    int    // how many rows the check would send
	Rejected int    // how many rows the check would reject
}

// readInPage reads a file as the card does: it checks it, and then takes batch after batch.
const readInPage = `(async ({ content, description }) => {
	const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
	const file = new ImportFile(new File([bytes], 'file'));
	const all = { Records: [], Rejects: [], Failure: '', Valid: 0, Rejected: 0 };
	const attempt = async (step) => {
		try {
			return await step();
		} catch (error) {
			if (!(error instanceof FileError)) throw error;
			all.Failure = error.message;
		}
	};
	const report = await attempt(() => file.ask({ do: 'survey', description }));
	Object.assign(all, { Valid: report?.valid, Rejected: report?.rejected });
	await attempt(async () => {
		for await (const { rows, rejects } of file.batches(report?.description ?? description)) {
			all.Records.push(...rows.map(({ line, json }) => ({ Line: line, JSON: json })));
			all.Rejects.push(...rejects);
		}
	});
	file.stop();
	return JSON.stringify(all);
})`

// The page's worker reads every file of pkg/importfile/testdata as the command does. The test runs
// the page's script for it on an empty page, because the dashboard's classes cannot be reached.
func dashboardReadsFiles(t *testing.T, b *browsertest.Browser) {
	s := startWithImporter(t)
	page := s.client(t).want(t, http.StatusOK, "GET", "/dashboard", "").body
	urls := regexp.MustCompile(`data-worker="([^"]*)" data-program="([^"]*)"`).FindStringSubmatch(page)
	if urls == nil {
		t.Fatal("the page has no importer")
	}
	tab := b.Tab(t, browsertest.Desktop)
	tab.Open(s.url + "/nowhere")
	var script strings.Builder
	for _, name := range []string{"format.js", "importfile.js"} {
		part, err := os.ReadFile("../../pkg/dashboard/page/" + name)
		if err != nil {
			t.Fatal(err)
		}
		script.Write(part)
	}
	browsertest.Eval[bool](tab, fmt.Sprintf(`(() => {
		const $ = () => ({ dataset: { worker: '/%s', program: '/%s' } });
		%s
		globalThis.readFile = %s;
		return true;
	})()`, urls[1], urls[2], script.String(), readInPage))
	cases := importcases.Load(t, "../..")
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var got pageRows
			file, err := json.Marshal(map[string]any{"content": c.Content(), "description": c.Description})
			if err == nil {
				err = json.Unmarshal([]byte(browsertest.Eval[string](tab, fmt.Sprintf("readFile(%s)", file))), &got)
			}
			if err != nil {
				t.Fatal(err)
			}
			var records []importcases.Record
			for _, r := range got.Records {
				records = append(records, importcases.Record{Line: r.Line, Record: []byte(r.JSON)})
			}
			var failure error
			if got.Failure != "" {
				first, size := utf8.DecodeRuneInString(got.Failure)
				failure = errors.New(string(unicode.ToLower(first)) + got.Failure[size:])
			}
			c.Check(t, records, got.Rejects, failure)
			if failure == nil && (got.Valid != len(c.Records) || got.Rejected != len(c.Rejects)) {
				t.Errorf("the check would send %d rows and reject %d, want %d and %d", got.Valid, got.Rejected, len(c.Records), len(c.Rejects))
			}
		})
	}
	t.Logf("the page agrees on %d files", len(cases))
}
