package attack

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"
	"sync"
)

// body is the body of a request.
type body struct {
	sent     string
	size     int // in bytes, after decompression
	elements int // of a batch
}

// sizeOf returns how large a body for the route may be, and the member that has a batch.
func sizeOf(route string) (n int, plural string) {
	switch route {
	case "upsert-entities":
		return 1<<20 - 1000, "entities"
	case "create-events":
		return 1<<20 - 1000, "events"
	}
	return 256<<10 - 1000, ""
}

// bodies returns bodies of the largest size that a route accepts.
func bodies(route string) map[string]body {
	n, plural := sizeOf(route)
	all := make(map[string]body)
	for name, text := range objects(n) {
		all[name] = body{text, len(text), 0}
	}
	if plural == "" {
		return all
	}
	for name, element := range elements(n / 101) {
		text := `{"` + plural + `":[` + strings.Repeat(element+",", 99) + element + `]}`
		all["elements of "+name] = body{text, len(text), 100}
	}
	all["too many elements"] = body{`{"` + plural + `":[` + strings.Repeat("0,", n/2-100) + `0]}`, n, 0}
	return all
}

// zipped returns compressed bodies that are as large after decompression, or larger.
func zipped(route string) map[string]body {
	n, _ := sizeOf(route)
	all := make(map[string]body)
	for name, text := range map[string]string{"spaces": strings.Repeat(" ", n), "members": objects(n)["members"], "gzip": zip(strings.Repeat(" ", n)), "too much": strings.Repeat("[", 4*n)} {
		all[name] = body{zip(text), min(len(text), n), 0}
	}
	all["a bomb"] = body{bomb(), n, 0}
	return all
}

// bomb is 50 MB of brackets.
var bomb = sync.OnceValue(func() string { return zip(strings.Repeat("[", 50<<20)) })

// objects returns bodies of about n bytes that are no batches.
func objects(n int) map[string]string {
	if made[n] == nil {
		made[n] = makeObjects(n)
	}
	return made[n]
}

var made = make(map[int]map[string]string)

func makeObjects(n int) map[string]string {
	return map[string]string{
		"nothing": "", "zeros": strings.Repeat("\x00", n), "spaces": strings.Repeat(" ", n),
		"open arrays": strings.Repeat("[", n), "open objects": strings.Repeat(`{"":`, n/4),
		"nested attributes": `{"id":"a","name":"n","attributes":{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}}`,
		"members":           "{" + repeated(`"%d":0,`, n-10) + `"a":0}`,
		"one member":        "{" + strings.Repeat(`"a":0,`, n/6-10) + `"a":0}`,
		"long members":      "{" + repeated(`"`+strings.Repeat(`\u0001`, n/180)+`%d":0,`, n-10) + `"a":0}`,
		"a long member":     `{"` + strings.Repeat("a", n-20) + `":0}`,
		"attributes":        `{"id":"a","name":"n","attributes":{` + repeated(`"%d":0,`, n-100) + `"a":0}}`,
		"small values":      `{"id":"a","name":"n","attributes":{"a":[` + strings.Repeat("0,", n/2-100) + `0]}}`,
		"a long id":         `{"id":"` + strings.Repeat("a", n-20) + `"}`,
		"an escaped id":     `{"id":"` + strings.Repeat(`\u0001`, n/6-20) + `"}`,
		"a long type":       `{"id":"a","type":"` + strings.Repeat("é", n/2-30) + `"}`,
		"a long key":        `{"key":"` + strings.Repeat("_", n-20) + `"}`,
		"a long number":     `{"id":` + strings.Repeat("9", n-20) + `}`,
		"gzip":              zip(strings.Repeat(" ", n)),
	}
}

// elements returns elements of batches, of at most n bytes.
func elements(n int) map[string]string {
	return map[string]string{
		"digits": "0", "objects": "{}",
		"unknown members": `{"a":0,"b":0,"c":0,"d":0,"e":0,"f":0,"g":0,"h":0,"i":0,"j":0}`,
		"long members":    `{` + repeated(`"`+strings.Repeat(`\u0001`, n/150)+`%d":0,`, n-20) + `"y":0}`,
		"long ids":        fmt.Sprintf(`{"id":%q}`, strings.Repeat("a", n-20)),
		"quotes":          `{"id":"` + strings.Repeat(`\"`, n/2-20) + `"}`,
		"equal records":   fmt.Sprintf(`{"id":"a","name":"n","attributes":{"a":%q}}`, strings.Repeat("a", n-60)),
	}
}

func zip(text string) string {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed) // fails only if the level is invalid
	io.WriteString(z, text)                         //nolint:errcheck // a buffer
	z.Close()                                       //nolint:errcheck // a buffer
	return b.String()
}
