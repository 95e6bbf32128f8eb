package importfile_test

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"sluice/pkg/importfile"
)

func TestASurveySaysWhatAnImportWouldDo(t *testing.T) {
	t.Parallel()
	file := strings.Join([]string{
		"id,name,created_at,,zip,x",
		"a/b,n,2026,0,90210,1", // the id is rejected, but the value counts
		"c/d,n,2026,1,02134,2",
		"e,n,2026,2,5,",
		",,,,,",
		"e,n,2026,3,6,",
		"f,n,2026,4,7",
	}, "\n")
	d := importfile.Description{Resource: "entity", Format: "csv", Type: "t", Columns: []importfile.Column{{Source: "x", Field: "attributes.amount"}}}
	o := importfile.Options{Indexes: []importfile.Index{{EntityType: "t", Attribute: "amount", Type: importfile.Text}, {EntityType: "u", Attribute: "zip", Type: importfile.Number}}}
	report, err := importfile.Survey(strings.NewReader(file), d, o, nil)
	if err != nil || report.Valid != 2 || report.Rejected != 3 || report.EmptyRows != 1 || report.DuplicateIDs != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	if want := `{"id":"e","type":"t","attributes":{"name":"n","zip":"5"}}`; string(report.First) != want {
		t.Errorf("first %s, want %s", report.First, want)
	}
	if len(report.Rejects) != 2 || report.Rejects[0].Count != 2 || report.Rejects[0].Examples[1].Line != 3 || !strings.Contains(report.Rejects[0].Reason, `"a/b" has the character '/'`) || report.Rejects[1].Examples[0].Text != "f,n,2026,4,7" {
		t.Errorf("rejects %+v", report.Rejects)
	}
	for _, want := range []string{
		"the column created_at is left out, because the service sets it",
		"the column 4 has no name and is left out",
		"the column id becomes the field of the same name",
		"the column zip has 1 text, 3 numbers, so all become text",
		"records with an id that an earlier one has: 1, first those at 4 and 6; which of them is stored last is undefined",
		"empty rows, which are skipped: 1",
	} {
		if !slices.Contains(report.Notes, want) {
			t.Errorf("notes %q lack %q", report.Notes, want)
		}
	}
	var types []string
	for _, c := range report.Description.Columns {
		types = append(types, c.Source+" "+string(c.Type))
	}
	if got := strings.Join(types, ", "); got != "x text, name text, zip text" { // x by the index on amount; that on zip is of another type of entity
		t.Errorf("types %s", got)
	}
	if chosen, err := importfile.ChooseTypes(strings.NewReader(file), d, o, nil); err != nil || !slices.Equal(chosen.Columns, report.Description.Columns) {
		t.Errorf("an import chooses %+v, %v", chosen.Columns, err)
	}
}

func TestASurveyOfJSON(t *testing.T) {
	t.Parallel()
	file := `{"id":"a","attributes":{"zip":90210,"n":1},"created_at":"x"}` + "\n" + `{"id":"b","attributes":{"zip":"02134"}}`
	o := importfile.Options{Indexes: []importfile.Index{{EntityType: "entity", Attribute: "n", Type: importfile.Text}}}
	report, err := importfile.Survey(strings.NewReader(file), importfile.Description{Resource: "entity", Format: "ndjson"}, o, nil)
	want := []string{
		"the column created_at is left out, because the service sets it",
		"the attribute n is indexed as text for entities of the type entity, but the file has 1 numbers, which a search does not find",
		"the attribute zip has values of several types: 1 text, 1 numbers; a type for it makes them the same",
	}
	if err != nil || report.Valid != 2 || !slices.Equal(report.Notes, want) {
		t.Errorf("%+v, %v", report, err)
	}
	event := importfile.Description{Resource: "event", Format: "ndjson", Time: importfile.TimeNow}
	if report, err := importfile.Survey(strings.NewReader(`{"name":"n"}`), event, importfile.Options{}, nil); err != nil || report.WithoutTime != 1 || len(report.Notes) != 1 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestGuess(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(strings.Repeat("id;a\n1;\"x\"\n", 20_000))); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		file, text, want string // want: resource, format, delimiter, encoding, quote; then the columns and their fields
	}{
		"commas":               {"a.csv", "id,type\n1,t\n", "entity csv    id id type type"},
		"semicolons and gzip":  {"a.csv.gz", packed.String(), "entity csv ;   id id a attributes.a"},
		"more commas in cells": {"a.csv", "id;note\n1;a,b,c\n2;d,e\n", "entity csv ;   id id note attributes.note"},
		"a line sep=":          {"a.csv", "sep=;\nid;name\n1;n\n", "event csv    id id name name"},
		"tabs and stray quotes": {
			"a.tsv", "id\tsize\n1\t5\" pipe\n2\t\"6\" pipe\n", "entity csv \t  none id id size attributes.size",
		},
		"tabs and quotes":   {"a.tsv", "id\tsize\n1\t\"5\"\n2\t\"6\"\n", "entity csv \t   id id size attributes.size"},
		"JSON":              {"a.json", `[{"id":1,"properties":{"a":1}}]`, "entity json    id id properties attributes.properties"},
		"an unknown name":   {"data", `{"name":"n","created_at":1}`, "event ndjson    name name created_at "},
		"an array":          {"data", ` [{"a":1}]`, "entity json    a attributes.a"},
		"text":              {"data.txt", "a|b\n1|2\n", "entity csv |   a attributes.a b attributes.b"},
		"UTF-16, no mark":   {"a.csv", "i\x00d\x00,\x00a\x00\n\x00", "entity csv  utf-16le  id id a attributes.a"},
		"UTF-16 and a mark": {"a.csv", "\xff\xfei\x00d\x00,\x00a\x00\n\x00", "entity csv    id id a attributes.a"},
		"no name":           {"a.csv", "id,,a\n1,2,3\n", "entity csv    id id 2 attributes.2 a attributes.a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			beginning := tt.text[:min(len(tt.text), importfile.GuessBytes)]
			g, err := importfile.Guess([]byte(beginning), tt.file, "", importfile.Options{Decode: decode})
			d := g.Description
			got := []string{string(d.Resource), string(d.Format), d.Delimiter, d.Encoding, d.Quote}
			for _, c := range g.Columns {
				got = append(got, c.Source, c.Field)
			}
			if text := strings.Join(got, " "); err != nil || text != tt.want {
				t.Errorf("%q, %v; want %q", text, err, tt.want)
			}
		})
	}
	g, err := importfile.Guess([]byte("id,a\n1,x\n2,\"y\nz\"\n"), "a.csv", "", importfile.Options{})
	if err != nil || !slices.Equal(g.Columns[1].Values, []string{"x", "y\nz"}) {
		t.Errorf("%+v, %v", g, err)
	}
}
