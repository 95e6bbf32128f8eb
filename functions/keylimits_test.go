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
	used := make(map[bool]map[string]dynamoproxy.Usage)
	for _, hasRow := range []bool{false, true} {
		proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
		d := deploy(t, proxy.URL)
		keys := d.guard(t)
		token := keys.create(t, "mine", access.Import, access.Export)
		name := "192.0.2.1"
		if hasRow {
			name = identityOf(token)
		}
		d.setRow(t, name, ratelimit.Limits{Imports: 100})
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
		used[hasRow] = make(map[string]dynamoproxy.Usage)
		for call, usage := range proxy.Usage() {
			table, _, _ := strings.Cut(call.Table, "-")
			used[hasRow][call.Operation+" "+table] = usage
		}
	}
	t.Logf("without a row: %v", used[false])
	t.Logf("with a row:    %v", used[true])
	if len(used[true]) == 0 || fmt.Sprint(used[true]) != fmt.Sprint(used[false]) {
		t.Errorf("%d imports and lists with a row of the key used %v, without one %v", requests, used[true], used[false])
	}
}
