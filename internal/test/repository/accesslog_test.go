package repository_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// logged lists the variables that the access log may contain, with sample values. None of
// them holds an error message or text from a client, because API Gateway's documentation does
// not say that values are escaped. Source: API Gateway Developer Guide, "Customize HTTP API
// access logs".
var logged = map[string][]string{ // variable → values
	"requestId":                     {"JKJaXmPLvHcESHA="},
	"identity.sourceIp":             {"192.0.2.1", "2001:db8::1"},
	"routeKey":                      {"ANY /entity/{id}", "$default"},
	"status":                        {"200", "503"},
	"responseLatency":               {"12", "-"},
	"integration.integrationStatus": {"200", "-"}, // status from Lambda
	"integration.status":            {"200", "-"}, // status from the function
	"error.responseType":            {"INTERNAL_FAILURE", "-"},
}

// maxAccessLine is in bytes. The log costs 0.50 USD per GB.
const maxAccessLine = 200

// checkAccessLog checks that, for any request, the log line is short JSON with the address,
// the route and the status.
func checkAccessLog(t *testing.T, format string) {
	t.Helper()
	variable := regexp.MustCompile(`\$context\.([\w.]+)`)
	var fields []string
	for n := range 2 {
		line := variable.ReplaceAllStringFunc(format, func(v string) string {
			values, ok := logged[variable.FindStringSubmatch(v)[1]]
			if !ok {
				t.Errorf("the access log has %s, which may contain text from a client", v)
				return `","status":"503`
			}
			return values[n%len(values)]
		})
		if n == 0 && len(line) > maxAccessLine {
			t.Errorf("a line of the access log has %d bytes, want at most %d: %s", len(line), maxAccessLine, line)
		}
		var got map[string]string // all values must be in quotes, because a missing one becomes a hyphen
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Errorf("the access log is not JSON: %v\n%s", err, line)
		}
		fields = slices.Collect(maps.Keys(got))
	}
	for _, name := range []string{"request_id", "address", "route", "status", "latency_ms", "lambda_status", "function_status"} {
		if !slices.Contains(fields, name) {
			t.Errorf("the access log lacks %s", name)
		}
	}
	if names := regexp.MustCompile(`"(\w+)":`).FindAllString(format, -1); len(names) != len(fields) {
		t.Errorf("the access log names %d fields, and a line has %d", len(names), len(fields))
	}
}
