//go:build js

// Command importer runs package importfile in a web worker of the dashboard. It defines the
// function importFile, which worker.js calls with a request in JSON, a Blob and a function that
// takes the progress, and which returns the reply in JSON.
//
// Everything is synchronous: the page pulls the rows of a file batch by batch, and ends the worker
// to cancel a request.
package main

import (
	"encoding/json"
	"fmt"
	"syscall/js"
	_ "time/tzdata" // a browser has no zones that Go can read

	"sluice/pkg/importfile"
	"sluice/pkg/record"
)

func main() {
	var session session
	js.Global().Set("importFile", js.FuncOf(func(_ js.Value, args []js.Value) any {
		session.progress = args[2]
		reply, err := session.handle(args[0].String(), args[1])
		if err != nil {
			reply = map[string]string{"error": err.Error()}
		}
		text, err := json.Marshal(reply)
		if err != nil {
			panic(err) // cannot happen: the replies are plain data
		}
		return string(text)
	}))
	select {}
}

// request is what the page asks.
type request struct {
	Do          string // guess, test, preview, survey, open or next
	Name        string // of the file; for guess
	Resource    record.Resource
	Description json.RawMessage
	Indexes     []importfile.Index // for survey
}

// session is the file that the page imports. There is one in a worker.
type session struct {
	file     *file
	rows     *importfile.Reader // since the last open
	progress js.Value           // takes how many bytes were read, and rejected rows in JSON
}

func (s *session) handle(text string, blob js.Value) (reply any, err error) {
	var r request
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return nil, err
	}
	if s.file == nil {
		if s.file, err = openFile(newBlob(blob)); err != nil {
			return nil, err
		}
	}
	switch r.Do {
	case "guess":
		return s.guess(r)
	case "next":
		return s.next(), nil
	}
	d, err := importfile.Parse(r.Description)
	switch {
	case r.Do == "test" && err != nil:
		return map[string]string{"wrong": err.Error()}, nil
	case err != nil:
		return nil, err
	}
	switch r.Do {
	case "test":
		return struct{}{}, nil
	case "preview":
		return s.preview(d)
	case "survey":
		return s.survey(d, r.Indexes)
	case "open":
		return struct{}{}, s.open(d)
	}
	return nil, fmt.Errorf("unknown request %q", r.Do)
}
