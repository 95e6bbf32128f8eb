package record_test

import (
	"runtime"
	"strings"
	"testing"

	"sluice/pkg/record"
)

func TestMergeAttributes(t *testing.T) {
	for _, tt := range []struct{ target, patch, want string }{
		// The examples of RFC 7396, appendix A, in which both target and patch are objects.
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},

		{`{"a":1,"b":2}`, `{}`, `{"a":1,"b":2}`},
		{`{"a":1,"b":2,"c":3}`, `{"d":4,"b":5}`, `{"a":1,"b":5,"c":3,"d":4}`},
		{`{"a":{"x":1,"y":2}}`, `{"a":{"x":null}}`, `{"a":{"y":2}}`},
		{`{"a":1}`, `{"a":{"x":null,"y":[null]}}`, `{"a":{"y":[null]}}`},
		{`{"n":12345678901234567890.10}`, `{"m":1E+400}`, `{"n":12345678901234567890.10,"m":1E+400}`},
		{`{"n":1}`, `{"n":1.0}`, `{"n":1.0}`},
		{`{"\u0041":1}`, `{"A":2}`, `{"\u0041":2}`},
		{`{"A":1}`, `{"\u0041":null}`, `{}`},
		{`{"html":"<&>\u003c"}`, `{"\u0000":"\u0000"}`, `{"html":"<&>\u003c","\u0000":"\u0000"}`},
		{`{"":1}`, `{"":2," ":3}`, `{"":2," ":3}`},
		{`{"a,\"":{"b":1}}`, `{"a,\"":{"c":2}}`, `{"a,\"":{"b":1,"c":2}}`},
	} {
		got, err := record.MergeAttributes(record.Attributes(tt.target), record.Attributes(tt.patch))
		if err != nil || string(got) != tt.want {
			t.Errorf("%s with %s: %s, error %v; want %s", tt.target, tt.patch, got, err, tt.want)
		}
		if again, err := record.MergeAttributes(got, record.Attributes(tt.patch)); err != nil || string(again) != tt.want {
			t.Errorf("%s with %s twice: %s, error %v; want %s", tt.target, tt.patch, again, err, tt.want)
		}
	}
	for _, bad := range []string{``, `1`, `[]`, `{`, `{"a"}`, `null`} {
		if got, err := record.MergeAttributes(record.Attributes(bad), record.Attributes(`{}`)); err == nil {
			t.Errorf("%s as target: %s", bad, got)
		}
		if got, err := record.MergeAttributes(record.Attributes(`{}`), record.Attributes(bad)); err == nil {
			t.Errorf("%s as patch: %s", bad, got)
		}
	}
}

// How much memory a merge allocates depends on the size of target and patch, not on how deeply
// they are nested.
func TestMergeAttributesOfDeepObjectsIsLinear(t *testing.T) {
	nest := func(depth int, content string) record.Attributes {
		return record.Attributes(strings.Repeat(`{"a":`, depth-1) + content + strings.Repeat(`}`, depth-1))
	}
	long := strings.Repeat("x", record.MaxAttributesBytes-1000)
	allocated := func(depth int) uint64 {
		target, patch := nest(depth, `{"b":"`+long+`"}`), nest(depth, `{"c":"`+long+`"}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		merged, err := record.MergeAttributes(target, patch)
		runtime.ReadMemStats(&after)
		if want := nest(depth, `{"b":"`+long+`","c":"`+long+`"}`); err != nil || string(merged) != string(want) {
			t.Errorf("depth %d: %d bytes, error %v; want %d bytes", depth, len(merged), err, len(want))
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	flat, deep := allocated(1), allocated(record.MaxDepth)
	if deep > 2*flat {
		t.Errorf("merging %d levels allocates %d bytes, merging one level %d", record.MaxDepth, deep, flat)
	}
}
