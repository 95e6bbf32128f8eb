// Package openapitest compares requests and responses with openapi.yaml, and reports which parts
// of that file no response has contained.
package openapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/errors"
	"go.yaml.in/yaml/v3"

	"sluice"
)

// Spec is openapi.yaml and a record of what responses have contained so far. It is safe for
// concurrent use.
type Spec struct {
	validator validator.Validator
	document  map[string]any

	mu   sync.Mutex
	seen map[string]bool
}

func Load() (*Spec, error) {
	doc, err := libopenapi.NewDocument(sluice.OpenAPI)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		return nil, fmt.Errorf("openapi.yaml: %v", errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		return nil, fmt.Errorf("openapi.yaml: %v", errs)
	}
	s := &Spec{validator: v, seen: make(map[string]bool)}
	return s, yaml.Unmarshal(sluice.OpenAPI, &s.document)
}

// Properties returns the sorted names of a schema's properties.
func (s *Spec) Properties(schema string) []string {
	schemas := object(object(s.document["components"])["schemas"])
	return slices.Sorted(maps.Keys(object(object(schemas[schema])["properties"])))
}

type Response struct {
	Method  string
	Target  string // path and query
	Request []byte // body of the request, decompressed; nil if it is not checked
	Status  int
	Header  http.Header // with canonical names
	Body    []byte
}

// Check fails if the response does not match its description. If openapi.yaml does not
// describe the request, the response must be a 204 to OPTIONS, or an error as described for
// GET /entity/{id} with the same status. A 405 must match the description of a 404. If the
// response is a success, the body of the request must match its description too.
func (s *Spec) Check(r Response) error {
	s.mu.Lock() // the library's caches are not safe for concurrent use
	defer s.mu.Unlock()
	path, _, _ := strings.Cut(r.Target, "?")
	described := r
	operation := s.operation(r.Method, path)
	if operation == nil && r.Method == http.MethodOptions && r.Status == http.StatusNoContent {
		if len(r.Body) > 0 || r.Header.Get("Allow") == "" || r.Header.Get("RateLimit") == "" {
			return fmt.Errorf("OPTIONS %s, 204: %v %s", path, r.Header, r.Body)
		}
		return nil
	}
	if operation == nil {
		if r.Status < http.StatusBadRequest {
			return fmt.Errorf("openapi.yaml does not describe %s %s", r.Method, path)
		}
		described.Method, described.Target = http.MethodGet, "/entity/id"
		operation = s.operation(described.Method, described.Target)
		if r.Status == http.StatusMethodNotAllowed {
			described.Status = http.StatusNotFound
		}
	} else if _, fixed := object(s.document["paths"])[path]; !fixed && strings.Count(path, "/") > 1 {
		// The library finds no description if a path parameter does not match its pattern, so
		// replace the value with a valid one.
		described.Target = path[:strings.LastIndex(path, "/")] + "/id"
	}
	req, err := http.NewRequest(described.Method, "http://127.0.0.1:3000"+strings.Split(described.Target, "?")[0], nil)
	if err != nil {
		return err
	}
	resp := &http.Response{StatusCode: described.Status, Header: described.Header, Body: io.NopCloser(bytes.NewReader(readable(described.Body))), Request: req}
	if _, errs := s.validator.ValidateHttpResponse(req, resp); len(errs) > 0 {
		return fmt.Errorf("%s %s, %d: %s\n%s", r.Method, r.Target, r.Status, reasons(errs), r.Body)
	}
	if r.Status < http.StatusMultipleChoices && len(r.Request) > 0 {
		if err := s.checkRequest(r); err != nil {
			return err
		}
	}
	return s.note(operation, described)
}

func (s *Spec) checkRequest(r Response) error {
	req, err := http.NewRequest(r.Method, "http://127.0.0.1:3000"+r.Target, bytes.NewReader(readable(r.Request)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if _, errs := s.validator.GetRequestBodyValidator().ValidateRequestBody(req); len(errs) > 0 {
		return fmt.Errorf("%s %s accepts a body that openapi.yaml does not describe: %s\n%s", r.Method, r.Target, reasons(errs), r.Request)
	}
	return nil
}

func reasons(errs []*errors.ValidationError) string {
	var b strings.Builder
	for _, e := range errs {
		fmt.Fprintf(&b, "%s: %s", e.Message, e.Reason)
		for _, f := range e.SchemaValidationErrors {
			fmt.Fprintf(&b, "; %s", f.Reason)
		}
	}
	return b.String()
}

// readable shortens exponents of numbers. The library decodes numbers as float64 and fails if they are
// too large, but openapi.yaml allows such numbers.
func readable(body []byte) []byte {
	if !mayHaveExponent(body) { // the expression is slow, above all with the race detector
		return body
	}
	return stringOrExponent.ReplaceAllFunc(body, func(part []byte) []byte {
		if part[0] == '"' {
			return part
		}
		return []byte("e1")
	})
}

// mayHaveExponent also finds what only looks like an exponent.
func mayHaveExponent(body []byte) bool {
	for {
		i := bytes.IndexAny(body, "eE")
		if i < 0 {
			return false
		}
		body = body[i+1:]
		number := bytes.TrimLeft(body[:min(4, len(body))], "+-")
		if len(number) >= 3 && len(bytes.TrimLeft(number[:3], "0123456789")) == 0 {
			return true
		}
	}
}

// stringOrExponent also matches strings, so that nothing in them is an exponent.
var stringOrExponent = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|[eE][+-]?[0-9]{3,}`)

// parameter matches a path parameter that regexp.QuoteMeta has escaped, such as \{id\}.
var parameter = regexp.MustCompile(`\\\{[^}]*\}`)

// operation returns nil if openapi.yaml does not describe the path and method.
func (s *Spec) operation(method, path string) map[string]any {
	paths := object(s.document["paths"])
	if item, ok := paths[path]; ok {
		return object(object(item)[strings.ToLower(method)])
	}
	for template, item := range paths {
		segments := parameter.ReplaceAllString(regexp.QuoteMeta(template), "[^/]+")
		if regexp.MustCompile("^" + segments + "$").MatchString(path) {
			return object(object(item)[strings.ToLower(method)])
		}
	}
	return nil
}

// note adds the status and the members of a response to s.seen. The caller holds s.mu.
func (s *Spec) note(operation map[string]any, r Response) error {
	s.seen[statusKey(operation, fmt.Sprint(r.Status))] = true
	response := s.resolve(object(object(operation["responses"])[fmt.Sprint(r.Status)]))
	for mediaType, content := range object(response["content"]) {
		if !strings.HasSuffix(mediaType, "json") || r.Header.Get("Content-Type") != mediaType {
			continue
		}
		var body any
		dec := json.NewDecoder(bytes.NewReader(r.Body))
		dec.UseNumber()
		if err := dec.Decode(&body); err != nil {
			return err
		}
		s.noteValue(object(object(content)["schema"]), body)
	}
	return nil
}

func statusKey(operation map[string]any, status string) string {
	return fmt.Sprintf("%v responds with %s", operation["operationId"], status)
}

// noteValue records which members and enumerated values of named schemas a value contains.
func (s *Spec) noteValue(schema map[string]any, value any) {
	name := refName(schema)
	schema = s.resolve(schema)
	alternatives, _ := schema["oneOf"].([]any)
	for _, alternative := range alternatives {
		s.noteValue(object(alternative), value)
	}
	switch v := value.(type) {
	case map[string]any:
		for member, child := range object(schema["properties"]) {
			if childValue, ok := v[member]; ok {
				s.seen[name+"."+member] = true
				s.noteEnum(name+"."+member, object(child), childValue)
				s.noteValue(object(child), childValue)
			}
		}
	case []any:
		for _, element := range v {
			s.noteValue(object(schema["items"]), element)
		}
	}
}

func (s *Spec) noteEnum(path string, schema map[string]any, value any) {
	if schema["enum"] != nil {
		s.seen[fmt.Sprintf("%s: %v", path, value)] = true
	}
}

// resolve returns the target of a $ref. It returns any other node unchanged.
func (s *Spec) resolve(node map[string]any) map[string]any {
	ref, ok := node["$ref"].(string)
	if !ok {
		return node
	}
	var at any = s.document
	for part := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		at = object(at)[part]
	}
	return object(at)
}

func refName(node map[string]any) string {
	ref, _ := node["$ref"].(string)
	return ref[strings.LastIndex(ref, "/")+1:]
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// Unseen returns what no response has contained: statuses of operations, members of schemas, and
// values of enumerations.
func (s *Spec) Unseen() []string {
	promised := make(map[string]bool)
	for _, item := range object(s.document["paths"]) {
		for _, operation := range object(item) {
			for status, response := range object(object(operation)["responses"]) {
				promised[statusKey(object(operation), status)] = true
				for _, content := range object(s.resolve(object(response))["content"]) {
					s.promise(object(object(content)["schema"]), promised)
				}
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(promised, func(key string, _ bool) bool { return s.seen[key] })
	return slices.Sorted(maps.Keys(promised))
}

// promise adds the members and enumerated values of a schema, and those of nested schemas, to a
// set.
func (s *Spec) promise(schema map[string]any, promised map[string]bool) {
	name := refName(schema)
	schema = s.resolve(schema)
	for member, child := range object(schema["properties"]) {
		path := name + "." + member
		if promised[path] {
			continue
		}
		promised[path] = true
		if values, ok := object(child)["enum"].([]any); ok {
			for _, v := range values {
				promised[fmt.Sprintf("%s: %v", path, v)] = true
			}
		}
		s.promise(object(child), promised)
	}
	if items := object(schema["items"]); items != nil {
		s.promise(items, promised)
	}
}
