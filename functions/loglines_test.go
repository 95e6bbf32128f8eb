package functions_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/cloudwatch"
	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/lambdatest"
	"sluice/pkg/access"
	"sluice/pkg/dynamo"
	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/record"
)

// metrics returns the names of metrics of the stack sluice-test that the log's last line changes.
func metrics(t *testing.T, log string) (names []string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	for m := range cloudwatch.Metrics(t, cloudwatch.Filters(t, "sluice-test"), "FunctionLogs", lines[len(lines)-1]) {
		if m.Namespace == "Sluice/sluice-test" || m.Namespace == "Sluice" && m.Dimensions == "Service=sluice-test" {
			names = append(names, m.Name)
		}
	}
	slices.Sort(names)
	return names
}

// maxLine is the maximum size in bytes of the log line of a request with a status below 500.
const maxLine = 550

// The scenarios of TestAlarmsThatRollBack in package repository_test depend on these lines.
// Lines without an error must be short, because every byte costs money (docs/cost.md).
func TestLogLinesMoveTheMetrics(t *testing.T) {
	t.Parallel()
	const unreachable = "http://127.0.0.1:1"
	list := lambdatest.Event("GET", "/entity", "192.0.2.1", "")
	forged := list
	forged.RawPath = "/entity\n" + `{"msg":"request","status":500,"Service":"sluice-test"}` + "\n"
	forged.RequestContext.HTTP.Path, forged.RawQueryString = forged.RawPath, "limit=\x01" // the adapter library prints the path of an event that it cannot convert
	for name, c := range map[string]struct {
		event    events.APIGatewayV2HTTPRequest
		endpoint string
		env      []string
		status   int
		want     []string
	}{
		"an admitted request":      {list, dynamolocal.Endpoint(t), nil, http.StatusOK, []string{"Allowed", "ChargeLatency", "Requests"}},
		"without a key":            {list, dynamolocal.Endpoint(t), []string{"AUTH_MODE=api-key", "KEYS_TABLE=none"}, http.StatusUnauthorized, []string{"AccessRefusals", "Allowed", "ChargeLatency", "ClientErrors", "Requests"}},
		"unreachable counters":     {list, unreachable, nil, http.StatusServiceUnavailable, []string{"ChargeFailures", "ChargeLatency", "LimitsUnread", "Requests", "ServerErrors"}},
		"a forged line of the log": {forged, dynamolocal.Endpoint(t), nil, http.StatusBadRequest, []string{"Allowed", "ChargeLatency", "ClientErrors", "Requests"}},
		// The instance counts in its own memory and admits the request, but cannot read records.
		"with the failure mode open": {list, unreachable, []string{"FAILURE_MODE=open"}, http.StatusServiceUnavailable, []string{"Allowed", "ChargeFailures", "ChargeLatency", "FailedOpen", "LimitsUnread", "Requests", "ServerErrors"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := deploy(t, dynamolocal.Endpoint(t))
			d.env = append(append(d.env, "SERVICE_NAME=sluice-test", "AWS_ENDPOINT_URL_DYNAMODB="+c.endpoint), c.env...)
			instance := d.start(t, "list-entity", 1)[0]
			invoke(t, instance, c.event, c.status)
			instance.Kill() // Kill also waits for the complete log
			log := strings.TrimSpace(instance.Log())
			if line := log[strings.LastIndex(log, "\n")+1:]; c.status < 500 && len(line) > maxLine {
				t.Errorf("the line has %d bytes, want at most %d: %s", len(line), maxLine, line)
			}
			requests := 0
			for line := range strings.Lines(log) {
				var fields struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &fields); err != nil {
					t.Errorf("%q is not a JSON object: %v", line, err)
				}
				if fields.Msg == "request" {
					requests++
				}
			}
			if requests != 1 {
				t.Errorf("%d lines are those of a request, want 1:\n%s", requests, log)
			}
			if got := metrics(t, log); !slices.Equal(got, c.want) {
				t.Errorf("metrics %v, want %v\n%s", got, c.want, log)
			}
		})
	}
}

// One entity's stamp is an hour ahead, more than the allowed clock difference.
func TestLogLineOfAClockFault(t *testing.T) {
	t.Parallel()
	d := deploy(t, dynamolocal.Endpoint(t))
	d.env = append(d.env, "SERVICE_NAME=sluice-test")
	for id, ahead := range map[string]time.Duration{"right": 0, "wrong": time.Hour} {
		store, err := dynamo.NewEntities(dynamolocal.Client(t), d.entities, dynamo.EntitiesConfig{Clock: entity.Clock{Now: func() time.Time { return time.Now().Add(ahead) }}})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := entity.Create(t.Context(), store, access.DefaultWorkspace, entity.Draft{ID: id}); err != nil {
			t.Fatal(err)
		}
		instance := d.start(t, "update-entity", 1)[0]
		invoke(t, instance, lambdatest.Event("POST", "/update_entity", "192.0.2.1", fmt.Sprintf(`{"id":%q,"attributes":{"n":1}}`, id)), http.StatusOK)
		instance.Kill()
		var faults []string
		for line := range strings.Lines(instance.Log()) {
			if slices.Contains(metrics(t, line), "ClockFaults") {
				faults = append(faults, line)
			}
		}
		if wrong := id == "wrong"; wrong != (len(faults) == 1) || wrong && (!strings.Contains(faults[0], `"entity":"wrong"`) || !strings.Contains(faults[0], `"level":"WARN"`)) {
			t.Errorf("%s: the faults are %q", id, faults)
		}
	}
}

// Exactly one log line changes the metric JobFailures.
func TestLogLineOfAFailedExportJob(t *testing.T) {
	t.Parallel()
	const shards, perEvent = 1, 500
	x := deployExports(t, dynamolocal.Shared(t), shards)
	importEvents(t, x.client, x.events, shards, 5, func(i int) event.Event { // the events' attributes need more columns than a CSV file can have
		attributes := make(map[string]int, perEvent)
		for n := range perEvent {
			attributes[fmt.Sprintf("a%d", i*perEvent+n)] = n
		}
		text, err := json.Marshal(attributes)
		if err != nil {
			t.Error(err)
		}
		return event.Event{ID: fmt.Sprint("e", i), Name: "wide", OccurredAt: record.TimeOf(imported), CreatedAt: record.TimeOf(imported), Attributes: record.Attributes(text)}
	})
	starter := x.run(t, x.starter, x.order(t, "fails", `"resource":"event","format":"csv"`), starterTimeout)
	starter.Kill()
	failures := 0
	for line := range strings.Lines(starter.Log()) {
		if slices.Contains(metrics(t, line), "JobFailures") {
			failures++
		}
	}
	if j := x.job(t, "fails"); failures != 1 || j.Error == nil {
		t.Errorf("the job is %+v, and %d lines count a failure\n%s", j, failures, starter.Log())
	}
}
