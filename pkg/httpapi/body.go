package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

const (
	maxBodyBytes   = 256 << 10 // of a request for one record, and of one event of a batch
	maxBatchBytes  = 1 << 20   // of a request for several
	maxFieldErrors = 20        // that one record's problem names: an answer must stay small
	maxNameShown   = 64        // characters of a client's text in a problem
)

// readBody reads a JSON body of at most limit bytes. A Content-Length above it
// is refused unread.
func readBody(r *request, limit int64) ([]byte, error) {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &apiError{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
			detail: fmt.Sprintf("the body must be sent as it is, not with Content-Encoding: %s", shorten(coding))}
	}
	// The gateway does not hand over a body beyond its own bound, only its length.
	if n, err := strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64); err == nil && n > limit {
		return nil, bodyTooLarge(limit)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read body: %w", err)
	}
	if int64(len(body)) > limit {
		return nil, bodyTooLarge(limit)
	}
	return body, nil
}

func bodyTooLarge(limit int64) error {
	return &apiError{status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		detail: fmt.Sprintf("the body is larger than %d bytes; send less in one request", limit)}
}

func checkContentType(value string) error {
	mediaType, params, err := mime.ParseMediaType(value)
	charset := params["charset"]
	if err != nil || mediaType != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return &apiError{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
			detail: fmt.Sprintf("the body must be sent as Content-Type: application/json in UTF-8, not %q", shorten(value))}
	}
	return nil
}

// field reads one member of a body. It returns what is wrong with the value,
// or "".
type field func(value jsontext.Value) (detail string)

// fields are the members that a body may have. A member that is null counts
// as left out.
type fields map[string]field

// decodeBody reads the body of r, of at most limit bytes, as one JSON object
// with the members of f (RFC 8259; no duplicate names, no lone surrogates). What
// is not JSON is a 400; members that are unknown or of the wrong type are a 422
// that names them, up to maxFieldErrors.
func decodeBody(r *request, limit int64, f fields) error {
	body, err := readBody(r, limit)
	if err != nil {
		return err
	}
	return f.decode(body)
}

// decode reads body as decodeBody does.
func (f fields) decode(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	value, err := dec.ReadValue()
	if err != nil {
		return malformed(err)
	}
	value = value.Clone()
	if err := dec.SkipValue(); err == nil {
		return malformed(errors.New("there is more after the first value"))
	} else if err != io.EOF {
		return malformed(err)
	}
	if value.Kind() != '{' {
		return badRequest("malformed_json", "the body must be a JSON object")
	}
	return f.read(value)
}

// read sets the members of a valid object.
func (f fields) read(object jsontext.Value) error {
	var wrong record.Fields
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	if _, err := dec.ReadToken(); err != nil {
		return malformed(err)
	}
	for dec.PeekKind() == '"' && len(wrong) < maxFieldErrors {
		token, err := dec.ReadToken()
		if err != nil {
			return malformed(err)
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return malformed(err)
		}
		read, known := f[name]
		switch {
		case !known:
			wrong.Add(shorten(name), "is not a field of this body; its fields are "+strings.Join(slices.Sorted(maps.Keys(f)), ", "))
		case value.Kind() != 'n':
			wrong.Add(name, read(value))
		}
	}
	return wrong.Err()
}

// shorten cuts a client's text to maxNameShown characters.
func shorten(s string) string {
	shown := 0
	for i := range s {
		if shown == maxNameShown {
			return s[:i] + "…"
		}
		shown++
	}
	return s
}

func malformed(err error) error {
	if err == io.EOF {
		err = errors.New("it is empty")
	}
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		err = fmt.Errorf("%w (byte %d)", syntax.Err, syntax.ByteOffset)
	}
	return badRequest("malformed_json", fmt.Sprintf("the body is not one well-formed JSON object: %v", err))
}

// text reads a string into dst, with set noting that it was there.
func text(dst *string, set *bool) field {
	return func(value jsontext.Value) string {
		if value.Kind() != '"' {
			return "must be a string"
		}
		if set != nil {
			*set = true
		}
		if err := json.Unmarshal(value, dst); err != nil {
			return "must be a string in UTF-8"
		}
		return ""
	}
}

// instant reads an RFC 3339 date-time into dst, with set noting that it was there.
func instant(dst *record.Time, set *bool) field {
	return func(value jsontext.Value) string {
		var s string
		if detail := text(&s, nil)(value); detail != "" {
			return detail
		}
		t, err := record.ParseTime(s)
		if err != nil {
			return "is " + err.Error()
		}
		*dst, *set = t, true
		return ""
	}
}

// attributes reads a JSON object into dst.
func attributes(dst *record.Attributes) field {
	return func(value jsontext.Value) string {
		if value.Kind() != '{' {
			return "must be a JSON object"
		}
		if depth(value) > record.MaxDepth {
			return fmt.Sprintf("is nested deeper than %d levels", record.MaxDepth)
		}
		value = value.Clone()
		if err := value.Compact(); err != nil {
			return "must be a JSON object"
		}
		*dst = record.Attributes(value)
		return ""
	}
}

// array reads a JSON array of 1 to most elements, of any kind, into dst.
func array(dst *[]jsontext.Value, most int) field {
	detail := fmt.Sprintf("must be an array of 1 to %d elements", most)
	return func(value jsontext.Value) string {
		if value.Kind() != '[' {
			return detail
		}
		dec := jsontext.NewDecoder(bytes.NewReader(value))
		if _, err := dec.ReadToken(); err != nil {
			return detail
		}
		var elements []jsontext.Value
		for dec.PeekKind() != ']' {
			element, err := dec.ReadValue()
			if err != nil || len(elements) == most {
				return detail
			}
			elements = append(elements, element.Clone())
		}
		if len(elements) == 0 {
			return detail
		}
		*dst = elements
		return ""
	}
}

// depth is how many levels of objects and arrays a valid value nests.
func depth(value jsontext.Value) int {
	deepest, level := 0, 0
	inString := false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
