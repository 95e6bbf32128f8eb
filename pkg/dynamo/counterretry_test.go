package dynamo

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/ratelimit"
)

// response sends one response, or breaks the connection.
type response func(w http.ResponseWriter, r *http.Request)

func admits(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, `{"Attributes":{"imports":{"N":"3"}}}`)
}

func failsWith(status int, code string) response {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply(w, status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"scripted"}`)
	}
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, body) //nolint:errcheck // a failed write fails the client, and so the test
}

// drops panics, so that the server closes the connection.
func drops(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

func resets(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // so that Close resets the connection
	conn.Close()                     //nolint:errcheck // the connection has to fail anyway
}

func cutsShort(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	reply(w, http.StatusOK, `{"Attributes":`)
	panic(http.ErrAbortHandler)
}

// script is a fake DynamoDB, and the dialer of its clients.
type script struct {
	mu        sync.Mutex
	responses []response // to the first calls; later calls succeed
	refuse    int        // how many more connections the dialer refuses
	calls     int
	dials     int
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // a server notices a disconnect only after it has read the body
	s.mu.Lock()
	s.calls++
	next := admits
	if len(s.responses) > 0 {
		next, s.responses = s.responses[0], s.responses[1:]
	}
	s.mu.Unlock()
	next(w, r)
}

func (s *script) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.mu.Lock()
	s.dials++
	refused := s.refuse > 0
	s.refuse--
	s.mu.Unlock()
	if refused {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (s *script) store(t *testing.T) *Counters {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: s.dial}
	t.Cleanup(transport.CloseIdleConnections)
	client := dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   &http.Client{Transport: transport},
	})
	store, err := NewCounters(client, "counters")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func charge(ctx context.Context, s *Counters) (ratelimit.Result, error) {
	return s.Charge(ctx, ratelimit.Key{Identity: "192.0.2.1", Group: "import", Window: 1_800_000_000}, one("imports", 200))
}

// A charge is retried at most once, and only if it cannot have been applied.
func TestOnlyAChargeThatWasNotAppliedIsRepeated(t *testing.T) {
	throttled := failsWith(http.StatusBadRequest, "ProvisionedThroughputExceededException")
	tests := []struct {
		name      string
		responses []response // to the first calls; later calls succeed
		refuse    int        // how many connections the dialer refuses at first
		calls     int
		dials     int // 0 if not checked
		fails     bool
	}{
		{"success at the first call", nil, 0, 1, 0, false},
		{"throttled once", []response{throttled}, 0, 2, 0, false},
		{"throttled by the account's limit", []response{failsWith(http.StatusBadRequest, "RequestLimitExceeded")}, 0, 2, 0, false},
		{"throttled on demand", []response{failsWith(http.StatusBadRequest, "ThrottlingException")}, 0, 2, 0, false},
		{"throttled twice", []response{throttled, throttled}, 0, 2, 0, true},
		{"a refused connection", nil, 1, 1, 2, false},
		{"two refused connections", nil, 2, 0, 2, true},
		{"a refused connection, then throttled", []response{throttled}, 1, 1, 2, true},
		{"throttled, then an internal error", []response{throttled, failsWith(http.StatusInternalServerError, "InternalServerError")}, 0, 2, 0, true},
		{"an internal error", []response{failsWith(http.StatusInternalServerError, "InternalServerError")}, 0, 1, 0, true},
		{"an error without a code", []response{failsWith(http.StatusInternalServerError, "")}, 0, 1, 0, true},
		{"an unavailable service", []response{failsWith(http.StatusServiceUnavailable, "ServiceUnavailable")}, 0, 1, 0, true},
		{"a bad gateway", []response{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }}, 0, 1, 0, true},
		{"a dropped response", []response{drops}, 0, 1, 0, true},
		{"a reset connection", []response{resets}, 0, 1, 0, true},
		{"a response cut short", []response{cutsShort}, 0, 1, 0, true},
		{"a missing table", []response{failsWith(http.StatusBadRequest, "ResourceNotFoundException")}, 0, 1, 0, true},
		{"a conflict with a transaction", []response{failsWith(http.StatusBadRequest, "TransactionConflictException")}, 0, 1, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &script{responses: slices.Clone(tt.responses), refuse: tt.refuse}
			result, err := charge(t.Context(), s.store(t))
			if result.Admitted == tt.fails || (err != nil) != tt.fails || result.Admitted && result.Used[0] != 3 {
				t.Errorf("%+v, error %v", result, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.calls != tt.calls || tt.dials > 0 && s.dials != tt.dials {
				t.Errorf("%d calls over %d connections, want %d over %d", s.calls, s.dials, tt.calls, tt.dials)
			}
		})
	}
}

type silent struct{}

func (silent) UpdateItem(ctx context.Context, _ *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAChargeTakesAtMostTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := NewCounters(silent{}, "counters")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		result, err := charge(context.Background(), store)
		if took := time.Since(start); result.Admitted || !errors.Is(err, context.DeadlineExceeded) || took != 2*time.Second {
			t.Errorf("%+v, error %v after %v", result, err, took)
		}
	})
}

func TestACounterThatIsNotANumberIsAnError(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`{"S":"3"}`, `{"N":"3.5"}`, `{"N":"1e40"}`, `{"NULL":true}`} {
		s := &script{responses: []response{func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusOK, `{"Attributes":{"imports":`+value+`}}`)
		}}}
		if _, err := charge(t.Context(), s.store(t)); err == nil {
			t.Errorf("%s: no error", value)
		}
	}
}
