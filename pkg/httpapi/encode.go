package httpapi

import (
	"errors"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// appendJSON appends the JSON of a reply's body to b. Strings and numbers of
// attributes come out as they were stored.
//
// Records, alone and in lists, are what nearly all replies show, and written by
// hand: what their types and tags say, without looking into attributes, which
// are JSON.
func appendJSON(b []byte, body any) ([]byte, error) {
	switch body := body.(type) {
	case entity.Entity:
		return appendEntity(b, &body)
	case event.Event:
		return appendEvent(b, &body)
	case listBody[entity.Entity]:
		return appendList(b, body, appendEntity)
	case listBody[event.Event]:
		return appendList(b, body, appendEvent)
	}
	text, err := json.Marshal(body, jsontext.PreserveRawStrings(true))
	return append(b, text...), err
}

// appendList appends the JSON of a list, with appendOne for each of its records.
func appendList[T any](b []byte, list listBody[T], appendOne func([]byte, *T) ([]byte, error)) (_ []byte, err error) {
	b = append(b, `{"data":[`...)
	for i := range list.Data {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendOne(b, &list.Data[i]); err != nil {
			return nil, err
		}
	}
	b = append(b, `],"next_cursor":`...)
	if list.NextCursor == nil {
		b = append(b, "null"...)
	} else {
		b = appendText(b, *list.NextCursor, &err)
	}
	return append(b, '}'), err
}

func appendEntity(b []byte, e *entity.Entity) (_ []byte, err error) {
	b = appendText(append(b, `{"id":`...), e.ID, &err)
	b = appendText(append(b, `,"type":`...), e.Type, &err)
	b = appendAttributes(append(b, `,"attributes":`...), e.Attributes, &err)
	b = appendTime(append(b, `,"created_at":"`...), e.CreatedAt)
	b = appendTime(append(b, `","updated_at":"`...), e.UpdatedAt)
	return append(b, `"}`...), err
}

func appendEvent(b []byte, e *event.Event) (_ []byte, err error) {
	b = appendText(append(b, `{"id":`...), e.ID, &err)
	b = appendText(append(b, `,"name":`...), e.Name, &err)
	b = append(b, `,"entity_id":`...)
	if e.EntityID == "" {
		b = append(b, "null"...)
	} else {
		b = appendText(b, string(e.EntityID), &err)
	}
	b = appendTime(append(b, `,"occurred_at":"`...), e.OccurredAt)
	b = appendAttributes(append(b, `","attributes":`...), e.Attributes, &err)
	b = appendTime(append(b, `,"created_at":"`...), e.CreatedAt)
	return append(b, `"}`...), err
}

// plain are the bytes that stand for themselves in a JSON string.
var plain = func() (plain [256]bool) {
	for c := ' '; c <= '~'; c++ {
		plain[c] = c != '"' && c != '\\'
	}
	return plain
}()

// appendText appends s as a JSON string. It sets err if s is not UTF-8.
func appendText(b []byte, s string, err *error) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			quoted, failed := jsontext.AppendQuote(b, s)
			if failed != nil {
				*err = failed
			}
			return quoted
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// appendAttributes appends attributes, which are JSON. It sets err where a
// store has let something else in that shows at once.
func appendAttributes(b []byte, a record.Attributes, err *error) []byte {
	if len(a) < len("{}") || a[0] != '{' || a[len(a)-1] != '}' {
		*err = errors.New("attributes are no JSON object: " + strconv.Quote(shorten(string(a))))
	}
	return append(b, a...)
}

func appendTime(b []byte, t record.Time) []byte {
	b, _ = t.AppendText(b) // it never fails
	return b
}
