package functions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
)

type frozenRoute struct {
	function string
	request  func(id string) events.APIGatewayV2HTTPRequest // id must be unique
	status   int
	creates  int // number of events that a request creates
}

var frozenRoutes = []frozenRoute{
	// not-found's first call to DynamoDB is the charge, which the SDK does not retry.
	{function: "not-found", status: http.StatusNotFound, request: func(string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("GET", "/nowhere", "192.0.2.1", "")
	}},
	{function: "usage", status: http.StatusOK, request: func(string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("GET", "/usage", "192.0.2.2", "")
	}},
	{function: "create-event", status: http.StatusCreated, creates: 1, request: func(id string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("POST", "/create_event", "192.0.2.3", `{"id":"`+id+`","name":"n"}`)
	}},
	// create-events and list-event have several connections, and all of them are cut.
	{function: "create-events", status: http.StatusCreated, creates: frozenBatch, request: func(id string) events.APIGatewayV2HTTPRequest {
		var batch []string
		for i := range frozenBatch {
			batch = append(batch, fmt.Sprintf(`{"id":"%s.%d","name":"n"}`, id, i))
		}
		return lambdatest.Event("POST", "/create_events", "192.0.2.4", `{"events":[`+strings.Join(batch, ",")+`]}`)
	}},
	{function: "list-event", status: http.StatusOK, request: func(string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("GET", "/event?limit=1", "192.0.2.5", "")
	}},
	// get-entity's first call to DynamoDB reads the entity.
	{function: "get-entity", status: http.StatusOK, request: func(string) events.APIGatewayV2HTTPRequest {
		return lambdatest.Event("GET", "/entity/e0", "192.0.2.6", "")
	}},
}

// frozenBatch is how many events a request to create-events contains.
const frozenBatch = 10

// frozenCase says what happens to an instance and its connections between two requests.
type frozenCase struct {
	freeze bool
	cut    dynamoproxy.Cut
	idle   time.Duration // minimum time between the cut and the second request
	rounds int
}

var frozenCases = []frozenCase{
	{freeze: false, cut: dynamoproxy.FIN, rounds: 1},
	{freeze: false, cut: dynamoproxy.RST, rounds: 1},
	{freeze: true, cut: dynamoproxy.FIN, rounds: 3},
	{freeze: true, cut: dynamoproxy.RST, rounds: 3},
	// A client cannot see a Silent cut. It avoids the dead connection only because of the idle
	// timeout of 10 s.
	{freeze: true, cut: dynamoproxy.Silent, rounds: 1, idle: 10*time.Second + 500*time.Millisecond},
}

// Connections to DynamoDB are cut while an instance is idle or frozen. The next request must
// not fail, and no request may be charged twice.
func TestFrozenInstances(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			d, proxy := deployFrozen(t, scheme)
			f := &frozen{t: t, proxy: proxy, instances: make(map[string][]*lambdatest.Instance)}
			for _, r := range frozenRoutes {
				f.instances[r.function] = d.start(t, r.function, 2)
			}
			charge := dynamoproxy.Call{Operation: "UpdateItem", Table: d.counters}
			before := proxy.Usage()[charge].Calls
			for _, c := range frozenCases {
				f.run(c)
			}
			if n := proxy.Usage()[charge].Calls - before; n > f.requests || n < f.requests-f.failed {
				t.Errorf("%d requests, of which %d failed, were charged %d times", f.requests, f.failed, n)
			}
			if n := count(t, d.events); n < f.created || n > f.created+f.failed*frozenBatch {
				t.Errorf("%d events are stored, want %d, and those of %d requests that failed", n, f.created, f.failed)
			}
		})
	}
}

// deployFrozen makes functions call DynamoDB through a proxy; scheme is http or https.
func deployFrozen(t *testing.T, scheme string) (deployment, *dynamoproxy.Proxy) {
	t.Helper()
	d := deploy(t, dynamolocal.Endpoint(t))
	seedEntities(t, d, 1)
	d.env = append(d.env, "EVENT_SHARDS=4")
	var proxy *dynamoproxy.Proxy
	if scheme == "https" {
		var certificate string
		proxy, certificate = dynamoproxy.StartTLS(t, dynamolocal.Endpoint(t))
		d.env = append(d.env, "SSL_CERT_FILE="+certificate)
	} else {
		proxy = dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	}
	d.env = append(d.env, "AWS_ENDPOINT_URL_DYNAMODB="+proxy.URL) // overrides the earlier value
	return d, proxy
}

type frozen struct {
	t         *testing.T
	proxy     *dynamoproxy.Proxy
	instances map[string][]*lambdatest.Instance // by function
	requests  int
	created   int // number of events of the requests that succeeded
	failed    int // number of requests; a call of theirs may have reached DynamoDB
}

// run tries a case again in which a request has failed, because a busy machine may let DynamoDB Local
// wait for longer than a request does. A request that fails because of a cut
// fails in every try.
func (f *frozen) run(c frozenCase) {
	f.t.Helper()
	const most = 3
	for try := 1; !f.try(c); try++ {
		if try == most {
			f.t.Errorf("requests failed in each of %d tries", most)
			return
		}
	}
}

// try sends two requests to every instance in each round. In between, it freezes the instances
// if c.freeze is set, and cuts all connections. It reports whether all requests succeeded, and logs
// how many of the second ones failed.
func (f *frozen) try(c frozenCase) bool {
	f.t.Helper()
	before := f.failed
	sent, failed := 0, make(map[string]int)
	for range c.rounds {
		f.each(func(r frozenRoute, instance *lambdatest.Instance) {
			f.send(r, instance)
			if c.freeze {
				if err := instance.Freeze(f.t.Context()); err != nil {
					f.t.Fatal(err)
				}
			}
		})
		n, err := f.proxy.CutIdle(f.t.Context(), c.cut)
		if err != nil {
			f.t.Fatal(err)
		}
		if c.freeze && n < 2*len(frozenRoutes) {
			f.t.Errorf("only %d connections were idle", n)
		}
		<-time.After(c.idle)
		f.each(func(r frozenRoute, instance *lambdatest.Instance) {
			sent++
			if !f.send(r, instance) {
				failed[r.function]++
			}
		})
	}
	f.t.Logf("frozen: %-5v  cut: %-6s  idle: %5v  requests: %3d  failed: %v", c.freeze, c.cut, c.idle, sent, failed)
	return f.failed == before
}

func (f *frozen) each(do func(r frozenRoute, instance *lambdatest.Instance)) {
	for _, r := range frozenRoutes {
		for _, instance := range f.instances[r.function] {
			do(r, instance)
		}
	}
}

// send reports whether the response has the expected status.
func (f *frozen) send(r frozenRoute, instance *lambdatest.Instance) bool {
	f.t.Helper()
	f.requests++
	resp, err := instance.Invoke(f.t.Context(), r.request(fmt.Sprint(f.requests)))
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != r.status {
		f.t.Logf("%s: status %d, want %d: %s", r.function, resp.StatusCode, r.status, resp.Body)
		f.failed++
		return false
	}
	f.created += r.creates
	return true
}
