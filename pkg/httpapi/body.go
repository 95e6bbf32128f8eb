package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"sluice/pkg/record"
)

const (
	maxBodyBytes   = 256 << 10 // of a request for one record, and of one event of a batch
	maxBatchBytes  = 1 << 20   // of a request for several
	maxFieldErrors = 20        // named in one problem, to keep it small
	maxNameShown   = 64        // characters of a client's text in a problem
)

// readBody reads a JSON body of at most limit bytes.
func readBody(r *request, limit int64) ([]byte, error) {
	if err := checkContentType(r.Header.Get("Content-Type")); err != nil {
		return nil, err
	}
	if coding := strings.Join(r.Header.Values("Content-Encoding"), ", "); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, &apiError{status: http.StatusUnsupportedMediaType, code: "unsupported_media_type",
			detail: fmt.Sprintf("the body must be sent as it is, not with Content-Encoding: %s", shorten(coding))}
	}
	if r.ContentLength > limit {
		return nil, bodyTooLarge(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, limit))
	if err != nil {
		return nil, unreadable(err, limit)
	}
	return body, nil
}

// unreadable returns the response to a body of which err ended the reading.
func unreadable(err error, limit int64) error {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return bodyTooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &apiError{status: http.StatusRequestTimeout, code: "request_timeout", cause: err,
			detail: "the body did not arrive in time, so nothing was done; send it again without pauses"}
	}
	return &apiError{status: http.StatusBadRequest, code: "incomplete_body", cause: err,
		detail: "the body ended early or its chunks are malformed, so nothing was done; send it again, whole"}
}

func bodyTooLarge(limit int64) error {
	return &apiError{status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		detail: fmt.Sprintf("the body is larger than %d bytes; send less in one request", limit)}
}

func checkContentType(value string) error {
	if value == "application/json" {
		return nil // as nearly all send it
	}
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
type fields []member

// member is a member that a body may have.
type member struct {
	name string
	read field
}

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

// decode reads body as decodeBody does. What it sets refers to body's bytes.
func (f fields) decode(body []byte) error {
	dec := newDecoder(body)
	defer dec.release()
	wrong, ok := f.readObject(dec)
	if ok {
		_, err := dec.ReadToken()
		ok = err == io.EOF
	}
	if !ok {
		return notAnObject(body)
	}
	return wrong.Err()
}

// notAnObject says why body, which is not one well-formed JSON object, is none.
func notAnObject(body []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(body))
	if err := dec.SkipValue(); err != nil {
		return malformed(err)
	}
	if err := dec.SkipValue(); err == nil {
		return malformed(errors.New("there is more after the first value"))
	} else if err != io.EOF {
		return malformed(err)
	}
	return badRequest("malformed_json", "the body must be a JSON object")
}

// read sets the members of a valid object.
func (f fields) read(object jsontext.Value) error {
	dec := newDecoder(object)
	defer dec.release()
	wrong, ok := f.readObject(dec)
	if !ok {
		return notAnObject(object)
	}
	return wrong.Err()
}

// readObject sets the members of the object that comes next, and says what is
// wrong with them. It is not ok if that is no well-formed object.
func (f fields) readObject(dec *decoder) (wrong record.Fields, ok bool) {
	if token, err := dec.ReadToken(); err != nil || token.Kind() != '{' {
		return nil, false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		if len(wrong) < maxFieldErrors {
			f.readMember(unquote(name), value, &wrong)
		}
	}
	_, err := dec.ReadToken() // the end of the object, if it is well-formed
	return wrong, err == nil
}

func (f fields) readMember(name []byte, value jsontext.Value, wrong *record.Fields) {
	i := slices.IndexFunc(f, func(m member) bool { return m.name == string(name) })
	switch {
	case i < 0:
		wrong.Add(shorten(string(name)), "is not a field of this body; its fields are "+f.names())
	case value.Kind() != 'n':
		wrong.Add(f[i].name, f[i].read(value))
	}
}

func (f fields) names() string {
	names := make([]string, len(f))
	for i, m := range f {
		names[i] = m.name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// unquote is the text of a valid JSON string. It may share its bytes.
func unquote(value jsontext.Value) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, value) // it is valid
	return text
}

// decoder reads JSON from bytes that it neither copies nor changes. Most of its
// cost is what it notes of the names of objects, which it can use again.
type decoder struct {
	jsontext.Decoder
	input bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// newDecoder makes a decoder of b, to be released. The values that it reads
// share the bytes of b and stay.
func newDecoder(b []byte) *decoder {
	dec := decoders.Get().(*decoder)
	dec.reset(b)
	return dec
}

func (dec *decoder) release() {
	dec.reset(nil)
	decoders.Put(dec)
}

func (dec *decoder) reset(b []byte) {
	dec.input = *bytes.NewBuffer(b)
	dec.Reset(&dec.input)
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
		*dst = string(unquote(value))
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
		depth, spaced := layout(value)
		if depth > record.MaxDepth {
			return fmt.Sprintf("is nested deeper than %d levels", record.MaxDepth)
		}
		if spaced {
			value = value.Clone()
			if err := value.Compact(); err != nil {
				return "must be a JSON object"
			}
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
		dec := newDecoder(value)
		defer dec.release()
		if _, err := dec.ReadToken(); err != nil {
			return detail
		}
		var elements []jsontext.Value
		for dec.PeekKind() != ']' {
			element, err := dec.ReadValue()
			if err != nil || len(elements) == most {
				return detail
			}
			elements = append(elements, element)
		}
		if len(elements) == 0 {
			return detail
		}
		*dst = elements
		return ""
	}
}

// layout is how many levels of objects and arrays a valid value nests, and
// whether there is white space between its tokens.
func layout(value jsontext.Value) (depth int, spaced bool) {
	level := 0
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
			depth = max(depth, level)
		case c == '}' || c == ']':
			level--
		case c <= ' ':
			spaced = true
		}
	}
	return depth, spaced
}
