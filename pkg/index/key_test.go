package index

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"strings"
	"testing"
	"unicode"
)

// keys returns the keys of two entities. ok is false if one of the values cannot be indexed.
func keys(t *testing.T, kind ValueType, idA, valueA, idB, valueB string) (a, b string, ok bool) {
	t.Helper()
	d := Declaration{Fields: Fields{{Name: "x", ValueType: kind}}}
	key := func(id, value string) string {
		key, present := d.Key(id, json.RawMessage(`{"w":"","x":`+value+`,"y":[]}`))
		if !present || key.Lead != "" {
			t.Errorf("%s: present %v, lead %q", value, present, key.Lead)
		}
		if _, err := d.Fields[0].code([]byte(value)); (err == nil) != (key != Key{}) || key != (Key{}) && (key.Rest <= first || key.Rest >= last+last || len(key.Rest) > MaxKeyBytes) {
			t.Errorf("%s has the key %q, %v", value, key, err)
		}
		return key.Rest
	}
	a, b = key(idA, valueA), key(idB, valueB)
	return a, b, a != "" && b != ""
}

// wantOrder checks that keys sort by value and then by id, given how the values compare.
func wantOrder(t *testing.T, idA, valueA, a, idB, valueB, b string, values int) {
	t.Helper()
	if got, want := cmp.Compare(a, b), cmp.Or(values, cmp.Compare(idA, idB)); got != want {
		t.Errorf("the keys of %s %s and %s %s: %q and %q compare as %d, want %d", idA, valueA, idB, valueB, a, b, got, want)
	}
}

// id returns "i" followed by the visible ASCII characters in the first 100 bytes of a text.
func id(text string) string {
	return "i" + strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return -1
	}, text[:min(len(text), 100)])
}

func FuzzTextKeys(f *testing.F) {
	f.Add("a", "", "b", "\x00")
	f.Add("b", "ada", "a", "ada@")
	f.Add("b", "a\x00", "a", "a\x00\x01")
	f.Add("1", "a", "2", "a\x00\x00")
	f.Add("1", "é", "2", "e\u0301")
	f.Add("1", "\U00010000", "2", "\uffff") // these two sort the other way around in UTF-16
	f.Add("1", strings.Repeat("x", maxTextBytes), "2", strings.Repeat("x", maxTextBytes+1))
	f.Fuzz(func(t *testing.T, idA, a, idB, b string) {
		idA, idB, a, b = id(idA), id(idB), strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		valueA, valueB := quoted(t, a), quoted(t, b)
		keyA, keyB, ok := keys(t, Text, idA, valueA, idB, valueB)
		if small := len(escape(a)) <= maxTextBytes && len(escape(b)) <= maxTextBytes; small != ok {
			t.Errorf("%s and %s are indexed: %v", valueA, valueB, ok)
		}
		if ok {
			wantOrder(t, idA, valueA, keyA, idB, valueB, keyB, strings.Compare(a, b))
			wantFound(t, Text, b, keyA, map[Operator]bool{Prefix: strings.HasPrefix(a, b)}, strings.Compare(a, b))
		}
	})
}

// Texts that differ only in case have the same key, and the beginning of one finds the others.
func FuzzFoldedKeys(f *testing.F) {
	f.Add("User7@example.com", 5)
	f.Add("STRASSE Straße ẞ", 10)
	f.Add("ΌΣΟΣ όσος", 4)
	f.Add("İstanbul ıI", 2)
	f.Add("ŉ ﬀ ǰ ᾳ", 3)
	f.Add("\x00A\x00", 1)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		text = strings.ToValidUTF8(text, "?")
		d := Declaration{Fields: Fields{{Name: "x", ValueType: Text, Fold: true}}}
		key := func(text string) string {
			key, _ := d.Key("i", json.RawMessage(`{"x":`+quoted(t, text)+`}`))
			return key.Rest
		}
		want := key(text)
		if want == "" {
			t.Skip("too long")
		}
		for _, r := range text { // each character by itself, since upper and lower case depend on what precedes
			if other := string(unicode.SimpleFold(r)); key(other) != key(string(r)) {
				t.Errorf("%q and %q have the keys %q and %q", string(r), other, key(string(r)), key(other))
			}
		}
		runes := []rune(text)
		prefix := string(runes[:min(max(cut, 0), len(runes))])
		q := Query{Declaration: d}
		if err := q.Where(Condition{"x", Prefix, prefix}); err != nil {
			t.Fatal(err)
		}
		if b, err := q.Bounds(); err != nil || want <= b.Low || want >= b.High {
			t.Errorf("%q does not find %q", prefix, text)
		}
	})
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	value, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func FuzzNumberKeys(f *testing.F) {
	f.Add("a", "0", "b", "-0.0")
	f.Add("b", "1e3", "a", "1000")
	f.Add("1", "-1.5", "2", "-1.25")
	f.Add("1", "9.99e-125", "2", "1E+125")
	f.Add("1", "0.1", "2", "10")
	f.Add("1", "1e126", "2", "99999999999999999999999999999999999999.0")
	f.Add("1", "01", "2", "1e999999999999")
	f.Fuzz(func(t *testing.T, idA, a, idB, b string) {
		a, b = strings.TrimSpace(a), strings.TrimSpace(b)
		if !json.Valid([]byte(a)) || !json.Valid([]byte(b)) || strings.ContainsAny(a+b, `[{"`) {
			t.Skip("not scalars")
		}
		idA, idB = id(idA), id(idB)
		keyA, keyB, ok := keys(t, Number, idA, a, idB, b)
		if !ok {
			return
		}
		compared := rational(t, a).Cmp(rational(t, b))
		wantOrder(t, idA, a, keyA, idB, b, keyB, compared)
		wantFound(t, Number, b, keyA, nil, compared)
	})
}

func rational(t *testing.T, number string) *big.Rat {
	t.Helper()
	if mantissa, _, _ := strings.Cut(strings.ToLower(number), "e"); strings.Trim(mantissa, "-0.") == "" {
		number = "0" // big.Rat may reject very large exponents, even of zero
	}
	r, ok := new(big.Rat).SetString(number)
	if !ok {
		t.Fatalf("%s is indexed, but is no number", number)
	}
	return r
}

// wantFound checks which queries select a key. compared is the result of comparing the key's value
// with the query's value. more holds the expected results of other operators.
func wantFound(t *testing.T, kind ValueType, value, key string, more map[Operator]bool, compared int) {
	t.Helper()
	want := map[Operator]bool{Equal: compared == 0, Greater: compared > 0, GreaterOrEqual: compared >= 0, Less: compared < 0, LessOrEqual: compared <= 0}
	maps.Copy(want, more)
	for op, selects := range want {
		q := Query{Declaration: Declaration{Fields: Fields{{Name: "x", ValueType: kind}}}}
		if err := q.Where(Condition{"x", op, value}); err != nil {
			t.Fatalf("%s %q: %v", op, value, err)
		}
		if b, err := q.Bounds(); err != nil || (b.Low < key && key < b.High) != selects || b.Low == key || key == b.High {
			t.Errorf("%q [%s] selects from %q to %q; whether it selects %q should be %v", value, op, b.Low, b.High, key, selects)
		}
	}
}

// The keys of one declaration are in partitions of its own, within the limits of DynamoDB.
func TestPartitions(t *testing.T) {
	t.Parallel()
	text := func(names ...string) (f Fields) {
		for i, name := range names {
			f[i] = Field{Name: name, ValueType: Text}
		}
		return f
	}
	var all []Declaration
	for _, typ := range []string{"a", "a#b", "1,1"} {
		for _, f := range []Fields{text("a"), text("b#c"), text("a", "b"), text("b", "a"), text("a", "b", "c"), text("a#b", "c"), text("a", "b#c"), text("1,1,1#a#a#a", "b")} {
			all = append(all, Declaration{Workspace: "w", Type: typ, Fields: f})
		}
	}
	for i, d := range all {
		for j, other := range all {
			for _, lead := range []string{"", "x", strings.Repeat("\xff", maxTextBytes)} {
				if len(other.Fields.List()) == 1 {
					lead = ""
				}
				if partition := other.Partition(lead); d.Owns(partition) != (i == j) || len(partition) > 2048 {
					t.Errorf("%s of %s owns %q of %s: %v", d.Fields, d.Type, partition, other.Fields, i != j)
				}
			}
		}
	}
}
