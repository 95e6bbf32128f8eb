package storetest

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"sluice/pkg/index"
)

// findValue is a JSON value. kind is "" if the value cannot be indexed.
type findValue struct {
	json string
	kind index.ValueType
}

var findValues = []findValue{
	{`""`, index.Text}, {`"a"`, index.Text}, {`"ab"`, index.Text}, {`"A"`, index.Text}, {`"a\u0000"`, index.Text}, {`"a\u0000b"`, index.Text},
	{`"a\u0001"`, index.Text}, {`"b"`, index.Text}, {`"é"`, index.Text}, {`"É"`, index.Text}, {`"aSs"`, index.Text}, {`"Aß"`, index.Text}, {`"\ue000"`, index.Text}, {`"😀"`, index.Text}, {`"1"`, index.Text},
	{`"` + strings.Repeat("y", 800) + `"`, index.Text}, {`"` + strings.Repeat("y", 801) + `"`, ""},
	{`0`, index.Number}, {`-0.0e5`, index.Number}, {`1`, index.Number}, {`1.0`, index.Number}, {`1e3`, index.Number}, {`1000`, index.Number}, {`999.9`, index.Number},
	{`12345678901234567890`, index.Number}, {`12345678901234567891`, index.Number}, {`0.1`, index.Number}, {`1E-1`, index.Number}, {`0.11`, index.Number},
	{`-1`, index.Number}, {`-5`, index.Number}, {`-50`, index.Number}, {`-4.5`, index.Number}, {`-51`, index.Number}, {`9.9e125`, index.Number}, {`1e-125`, index.Number}, {`-1e125`, index.Number},
	{strings.Repeat("9", 38), index.Number}, {strings.Repeat("9", 39), ""}, {`1e126`, ""}, {`1e-126`, ""}, {`1e99999999999999999999`, ""},
	{`true`, index.Boolean}, {`false`, index.Boolean}, {`null`, ""}, {`[1]`, ""}, {`{"x":1}`, ""},
}

// in returns the value as an index on f compares it.
func (v findValue) in(f index.Field) findValue {
	if f.Fold {
		folded, _ := json.Marshal(strings.ReplaceAll(strings.ToLower(v.text()), "ß", "ss"))
		v.json = string(folded)
	}
	return v
}

// common are a few values that many entities share, so that queries with several conditions find some.
var common = []string{`"a"`, `"A"`, `"ab"`, `1`, `1.0`, `1000`, `-5`, `true`}

// drawValue draws a value that accept accepts, in most cases a common one.
func drawValue(rt *rapid.T, label string, accept func(findValue) bool) findValue {
	all := slices.DeleteFunc(slices.Clone(findValues), func(v findValue) bool { return !accept(v) })
	if rapid.IntRange(0, 3).Draw(rt, "rare") > 0 {
		all = slices.DeleteFunc(all, func(v findValue) bool { return !slices.Contains(common, v.json) })
	}
	return rapid.SampledFrom(all).Draw(rt, label)
}

// text returns the value as it appears in a query.
func (v findValue) text() string {
	var s string
	if json.Unmarshal([]byte(v.json), &s) == nil {
		return s
	}
	return v.json
}

func (v findValue) compare(other findValue) int {
	if v.kind != index.Number {
		return strings.Compare(v.text(), other.text())
	}
	a, _ := new(big.Rat).SetString(v.json)
	b, _ := new(big.Rat).SetString(other.json)
	return a.Cmp(b)
}

func (v findValue) matches(op index.Operator, bound findValue) bool {
	n := v.compare(bound)
	switch op {
	case index.Greater:
		return n > 0
	case index.GreaterOrEqual:
		return n >= 0
	case index.Less:
		return n < 0
	case index.LessOrEqual:
		return n <= 0
	case index.Prefix:
		return strings.HasPrefix(v.text(), bound.text())
	}
	return n == 0
}
