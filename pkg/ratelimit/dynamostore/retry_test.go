package dynamostore_test

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
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"sluice/pkg/ratelimit"
	"sluice/pkg/ratelimit/dynamostore"
)

// answer is what the server of a script does with a call.
type answer func(w http.ResponseWriter, r *http.Request)

func admits(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, `{"Attributes":{"imports":{"N":"3"}}}`)
}

func failsWith(status int, code string) answer {
	return func(w http.ResponseWriter, _ *http.Request) {
		reply(w, status, `{"__type":"com.amazonaws.dynamodb.v20120810#`+code+`","message":"scripted"}`)
	}
}

func reply(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	io.WriteString(w, body) //nolint:errcheck // the client would fail the test
}

// drops closes the connection of a call that it has read.
func drops(_ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }

// resets breaks the connection of a call that it has read, which the client
// sees as a failure of the network.
func resets(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // then it is a dropped answer
	conn.Close()
}

// cutsShort closes the connection amid its answer.
func cutsShort(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "1000")
	reply(w, http.StatusOK, `{"Attributes":`)
	panic(http.ErrAbortHandler)
}

// isSilent answers nothing until the client gives up.
func isSilent(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// script is a DynamoDB that answers each call as the script says, behind a
// dialer that fails first as often as it is told.
type script struct {
	mu      sync.Mutex
	answers []answer
	refuse  int
	calls   int
	dials   int
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body) //nolint:errcheck // so that the server notices when the client leaves
	s.mu.Lock()
	s.calls++
	next := admits
	if len(s.answers) > 0 {
		next, s.answers = s.answers[0], s.answers[1:]
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

func (s *script) store(t *testing.T) *dynamostore.Store {
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
	store, err := dynamostore.New(client, "counters")
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func charge(ctx context.Context, s *dynamostore.Store) (bool, int64, error) {
	used, admitted, err := s.Charge(ctx, ratelimit.Key{Address: "192.0.2.1", Class: ratelimit.Import, Window: 1_800_000_000},
		[]ratelimit.Rule{{Counter: "imports", Limit: 200}}, ratelimit.Amounts{First: 1})
	return admitted, used.First, err
}

// A charge is repeated, once, only if it cannot have been applied.
func TestOnlyAChargeThatWasNotAppliedIsRepeated(t *testing.T) {
	throttled := failsWith(http.StatusBadRequest, "ProvisionedThroughputExceededException")
	tests := []struct {
		name    string
		answers []answer // then it admits
		refuse  int      // connections, first
		calls   int
		dials   int // 0: as many as the transport likes
		fails   bool
	}{
		{"an answer at once", nil, 0, 1, 0, false},
		{"throttled once", []answer{throttled}, 0, 2, 0, false},
		{"throttled by the account's limit", []answer{failsWith(http.StatusBadRequest, "RequestLimitExceeded")}, 0, 2, 0, false},
		{"throttled on demand", []answer{failsWith(http.StatusBadRequest, "ThrottlingException")}, 0, 2, 0, false},
		{"throttled twice", []answer{throttled, throttled}, 0, 2, 0, true},
		{"a refused connection", nil, 1, 1, 2, false},
		{"two refused connections", nil, 2, 0, 2, true},
		{"a refused connection, then throttled", []answer{throttled}, 1, 1, 2, true},
		{"throttled, then an internal error", []answer{throttled, failsWith(http.StatusInternalServerError, "InternalServerError")}, 0, 2, 0, true},
		{"an internal error", []answer{failsWith(http.StatusInternalServerError, "InternalServerError")}, 0, 1, 0, true},
		{"an error without a code", []answer{failsWith(http.StatusInternalServerError, "")}, 0, 1, 0, true},
		{"an unavailable service", []answer{failsWith(http.StatusServiceUnavailable, "ServiceUnavailable")}, 0, 1, 0, true},
		{"a bad gateway", []answer{func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad gateway", http.StatusBadGateway) }}, 0, 1, 0, true},
		{"a dropped answer", []answer{drops}, 0, 1, 0, true},
		{"a reset connection", []answer{resets}, 0, 1, 0, true},
		{"an answer cut short", []answer{cutsShort}, 0, 1, 0, true},
		{"a missing table", []answer{failsWith(http.StatusBadRequest, "ResourceNotFoundException")}, 0, 1, 0, true},
		{"an item that another transaction holds", []answer{failsWith(http.StatusBadRequest, "TransactionConflictException")}, 0, 1, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &script{answers: slices.Clone(tt.answers), refuse: tt.refuse}
			admitted, used, err := charge(t.Context(), s.store(t))
			if admitted == tt.fails || (err != nil) != tt.fails || admitted && used != 3 {
				t.Errorf("admitted %v, used %d, error %v", admitted, used, err)
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.calls != tt.calls || tt.dials > 0 && s.dials != tt.dials {
				t.Errorf("%d calls over %d connections, want %d over %d", s.calls, s.dials, tt.calls, tt.dials)
			}
		})
	}
}

// A connection that has been idle may be gone when it is used again. Whether
// the charge was read from it cannot be known, so that it is not repeated.
func TestADroppedAnswerOnAUsedConnectionIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := &script{answers: []answer{admits, drops}}
	store := s.store(t)
	if admitted, _, err := charge(t.Context(), store); !admitted || err != nil {
		t.Fatalf("admitted %v, error %v", admitted, err)
	}
	if admitted, _, err := charge(t.Context(), store); admitted || err == nil {
		t.Errorf("admitted %v, error %v", admitted, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls != 2 {
		t.Errorf("%d calls, want 2", s.calls)
	}
}

func TestASilentServerIsGivenUpAfterOneCall(t *testing.T) {
	t.Parallel()
	s := &script{answers: []answer{isSilent}}
	store := s.store(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	admitted, _, err := charge(ctx, store)
	if admitted || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("admitted %v, error %v", admitted, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls > 1 { // 0 where the machine was too slow to send it
		t.Errorf("%d calls", s.calls)
	}
}

// A refusal carries the counters as they are, in one call.
func TestARefusalShowsTheCounters(t *testing.T) {
	t.Parallel()
	s := &script{answers: []answer{func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed","Item":{"imports":{"N":"200"}}}`)
	}}}
	admitted, used, err := charge(t.Context(), s.store(t))
	if admitted || used != 200 || err != nil {
		t.Errorf("admitted %v, used %d, error %v", admitted, used, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls != 1 {
		t.Errorf("%d calls", s.calls)
	}
}

// What is not a number in a counter's place is an error, not zero.
func TestACounterThatIsNoNumberIsAnError(t *testing.T) {
	t.Parallel()
	for _, value := range []string{`{"S":"3"}`, `{"N":"3.5"}`, `{"N":"1e40"}`, `{"NULL":true}`} {
		s := &script{answers: []answer{func(w http.ResponseWriter, _ *http.Request) {
			reply(w, http.StatusOK, `{"Attributes":{"imports":`+value+`}}`)
		}}}
		if _, _, err := charge(t.Context(), s.store(t)); err == nil {
			t.Errorf("%s: no error", value)
		}
	}
}
