package functions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/ratelimit"
)

func keyed(ev events.APIGatewayV2HTTPRequest, token string) events.APIGatewayV2HTTPRequest {
	ev.Headers["authorization"] = "Bearer " + token
	return ev
}

func identityOf(token string) string { return "key:" + strings.Split(token, "_")[1] }

func TestTheRowOfAKeyCostsNoCallAndNoUnit(t *testing.T) {
	t.Parallel()
	const requests = 10
	used := make(map[string]map[string]dynamoproxy.Usage)
	for _, row := range []string{"none", "limits", "quotas"} {
		proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
		d := deploy(t, proxy.URL)
		keys := d.guard(t)
		token := keys.create(t, "mine", access.Import, access.Export)
		name, limits := identityOf(token), ratelimit.Limits{Imports: 100}
		switch row {
		case "none":
			name = "192.0.2.1"
		case "quotas":
			limits.Quotas = ratelimit.Quotas{RecordsPerDay: 1000, RecordsPerMonth: 1000, ImportsPerDay: 1000, ImportsPerMonth: 1000}
		}
		d.setRow(t, name, limits)
		for _, call := range []struct {
			function string
			event    events.APIGatewayV2HTTPRequest
		}{
			{"create-event", lambdatest.Event("POST", "/create_event", "192.0.2.1", `{"id":"e","name":"n"}`)},
			{"list-event", lambdatest.Event("GET", "/event?limit=1", "192.0.2.1", "")},
		} {
			instance := d.start(t, call.function, 1)[0]
			for range requests {
				if resp, err := instance.Invoke(t.Context(), keyed(call.event, token)); err != nil || resp.StatusCode >= 300 {
					t.Fatalf("%s: %d %s, %v", call.function, resp.StatusCode, resp.Body, err)
				}
			}
		}
		used[row] = make(map[string]dynamoproxy.Usage)
		for call, usage := range proxy.Usage() {
			table, _, _ := strings.Cut(call.Table, "-")
			used[row][call.Operation+" "+table] = usage
		}
	}
	for row, calls := range used {
		t.Logf("%d imports and lists, row of the key: %-6s %v", requests, row, calls)
		if len(calls) == 0 || fmt.Sprint(calls) != fmt.Sprint(used["none"]) {
			t.Errorf("without a row: %v", used["none"])
		}
	}
}
