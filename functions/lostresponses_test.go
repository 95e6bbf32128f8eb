package functions_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/test/dynamolocal"
	"sluice/internal/test/dynamoproxy"
	"sluice/internal/test/lambdatest"
)

// DynamoDB applies all writes, but a third of its responses are lost. The function retries
// some writes, and the client repeats each batch until all its events are acknowledged. At
// the end, each event is stored once.
func TestBatchesRepeatedAfterLostResponsesStoreEachEventOnce(t *testing.T) {
	t.Parallel()
	const batches, batch = 2, 100
	proxy := dynamoproxy.Start(t, dynamolocal.Endpoint(t))
	d := deploy(t, proxy.URL)
	d.env = append(d.env, "EVENT_SHARDS=4")
	create := d.start(t, "create-events", 1)[0]
	var lost atomic.Int64
	proxy.SetFault(func(call dynamoproxy.Call) dynamoproxy.Fault {
		drop := call.Operation == "PutItem" && call.Table == d.events && rand.IntN(3) == 0
		if drop {
			lost.Add(1)
		}
		return dynamoproxy.Fault{Drop: drop}
	})
	repeats := 0
	for i := range batches {
		var events []string
		for j := range batch {
			events = append(events, fmt.Sprintf(`{"id":"%02d-%02d","name":"n"}`, i, j))
		}
		body := `{"events":[` + strings.Join(events, ",") + `]}`
		answered := make(map[int]bool)
		for try := 0; len(answered) < batch; try++ {
			if try == 30 {
				t.Fatal("a batch failed 30 times")
			}
			resp, err := create.Invoke(t.Context(), lambdatest.Event("POST", "/create_events", fmt.Sprintf("192.0.2.%d", i), body))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Results []struct{ Status int }
			}
			if err := json.Unmarshal([]byte(resp.Body), &got); err != nil || len(got.Results) != batch {
				t.Fatalf("%d %.300s, error %v", resp.StatusCode, resp.Body, err)
			}
			for i, r := range got.Results {
				switch r.Status {
				case http.StatusOK, http.StatusCreated:
					answered[i] = true
				case http.StatusServiceUnavailable:
				default:
					t.Fatalf("an event has the status %d: %.300s", r.Status, resp.Body)
				}
			}
			if try > 0 {
				repeats++
			}
		}
	}
	t.Logf("%d responses to the writes of %d events were lost, and batches were repeated %d times", lost.Load(), batches*batch, repeats)
	if n := count(t, d.events); n != batches*batch {
		t.Errorf("%d events are stored, want %d", n, batches*batch)
	}
	if lost.Load() < batches*batch/4 {
		t.Errorf("only %d responses were lost", lost.Load())
	}
}
