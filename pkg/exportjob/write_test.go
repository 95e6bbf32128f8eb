package exportjob

import (
	"context"
	"strings"
	"testing"

	"sluice/internal/test/jobtest"
	"sluice/pkg/api"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

func exportedEvent(id, attributes string) event.Event {
	return event.Event{ID: id, Name: "n", OccurredAt: record.TimeOf(created), CreatedAt: record.TimeOf(created), Attributes: record.Attributes(attributes)}
}

// exported returns the uncompressed file of events "e0", "e1", … with these attributes.
func exported(t jobtest.TB, o api.ExportOrder, attributes ...string) string {
	t.Helper()
	cfg := parts(1<<16, 1)
	cfg.formulas = o.CSVFormulas
	w := newWorld(t, record.Event, o.Format, 0, cfg)
	for i, a := range attributes {
		e := exportedEvent("e"+string(rune('0'+i)), a)
		w.records = append(w.records, stored{key: e.Position().String(), event: e})
		w.want = append(w.want, e.ID)
	}
	if err := w.deliver(context.Background(), new(life)); err != nil {
		t.Fatalf("%v", err)
	}
	w.ended("")
	content, err := unzip(w.files[fileOf(w.jobs.Job(), w.state(w.jobs.Job()).details, nil).Key])
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(content)
}

func TestNDJSONKeepsEveryByteOfAttributes(t *testing.T) {
	t.Parallel()
	for _, attributes := range []string{
		`{}`,
		`{"n":[0,-0,1.50,1E400,-1e-400,12345678901234567890.1234567890]}`,
		`{"s":"\u0041\/\"\\\b\n\u2028` + "\u2028" + `<&>é😀\ud83d\ude00"}`,
		`{"z":1,"a":{"z":null,"a":[true,false,[],{}]}}`,
		`{"":"","\u0000":0}`,
	} {
		want := `{"id":"e0","name":"n","entity_id":null,"occurred_at":"2026-03-01T12:00:00.000Z","attributes":` + attributes + `,"created_at":"2026-03-01T12:00:00.000Z"}` + "\n"
		if got := exported(t, api.ExportOrder{Format: record.NDJSON}, attributes); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	}
}

// Package recordfile tests the format of cells.
func TestCSV(t *testing.T) {
	t.Parallel()
	fields := strings.Join(record.Columns(new(event.Event).Members(nil)), ",")
	line := func(id string) string {
		e := exportedEvent(id, "")
		var cells []string
		for _, m := range e.Members(nil) {
			switch v := m.Value.(type) {
			case *string:
				cells = append(cells, *v)
			case *record.Time:
				cells = append(cells, v.String())
			}
		}
		return strings.Join(cells, ",")
	}
	for name, tt := range map[string]struct {
		attributes []string
		want       []string
	}{
		"no records":    {nil, []string{fields}},
		"no attributes": {[]string{`{}`, `{}`}, []string{fields, line("e0"), line("e1")}},
		"a column for each attribute of any record, in byte order": {
			[]string{`{"b":1,"a":2}`, `{"é":3,"B":4}`},
			[]string{fields + ",attributes.B,attributes.a,attributes.b,attributes.é", line("e0") + ",,2,1,", line("e1") + ",4,,,3"},
		},
		"attributes with the names of fields": {[]string{`{"id":"x","attributes.id":"y"}`}, []string{fields + ",attributes.attributes.id,attributes.id", line("e0") + ",y,x"}},
		"one value of each kind": {
			[]string{`{"a":null,"b":true,"c":-1.50e+3,"d":"","e":"\u0041\"b","f":[1, 2],"g":{"x":"\u0041"}}`},
			[]string{fields + ",attributes.a,attributes.b,attributes.c,attributes.d,attributes.e,attributes.f,attributes.g", line("e0") + `,null,true,-1.50e+3,"","A""b","[1, 2]","{""x"":""\u0041""}"`},
		},
		"values that must be quoted": {
			[]string{`{"a":"x,y","b":"x\ny","c":"x\r\ny","d":" x"}`},
			[]string{fields + ",attributes.a,attributes.b,attributes.c,attributes.d", line("e0") + `,"x,y","x` + "\n" + `y","x` + "\r\n" + `y", x`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := exported(t, api.ExportOrder{Format: record.CSV}, tt.attributes...), strings.Join(tt.want, "\r\n")+"\r\n"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestFormulasAreNeutralizedOrKept(t *testing.T) {
	t.Parallel()
	for formulas, want := range map[api.Formulas]string{"": ",'=1+1\r\n", api.NeutralizeFormulas: ",'=1+1\r\n", api.KeepFormulas: ",=1+1\r\n"} {
		if got := exported(t, api.ExportOrder{Format: record.CSV, CSVFormulas: formulas}, `{"a":"=1+1"}`); !strings.HasSuffix(got, want) {
			t.Errorf("%q: got %s", formulas, got)
		}
	}
}
