package bootstrap

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A server that reads a request and then closes the connection may have applied the request.
func TestRequestThatWasSentIsNotRepeated(t *testing.T) {
	var mu sync.Mutex
	requests, seen := 0, make(map[string]bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // on an error, the client fails too
		mu.Lock()
		defer mu.Unlock()
		requests++
		if seen[r.RemoteAddr] {
			panic(http.ErrAbortHandler) // closes a reused connection
		}
		seen[r.RemoteAddr] = true
		io.WriteString(w, "{}") //nolint:errcheck // on an error, the client fails too
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.URL)
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	sdk, err := LoadAWS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client := dynamodb.NewFromConfig(sdk, func(o *dynamodb.Options) {
		o.Retryer = aws.NopRetryer{}
		o.DisableValidateResponseChecksum = true
	})
	calls := 0
	// Only a call on a reused connection fails, and not every call reuses one.
	for err == nil && calls < 100 {
		calls++
		_, err = client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("counters"),
			Key:       map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "k"}},
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if err == nil || requests != calls {
		t.Errorf("%d calls sent %d requests, error %v", calls, requests, err)
	}
}

func TestClosedByPeer(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(client net.Conn, server *net.TCPConn) error
		want bool
	}{
		{"open", func(net.Conn, *net.TCPConn) error { return nil }, false},
		{"closed", func(_ net.Conn, server *net.TCPConn) error { return server.Close() }, true},
		{"half closed", func(_ net.Conn, server *net.TCPConn) error { return server.CloseWrite() }, true},
		{"reset", func(_ net.Conn, server *net.TCPConn) error {
			server.SetLinger(0) //nolint:errcheck // makes Close send a RST
			return server.Close()
		}, true},
		{"unread data", func(_ net.Conn, server *net.TCPConn) error {
			_, err := server.Write([]byte("408"))
			return err
		}, true},
		{"closed by the client", func(client net.Conn, _ *net.TCPConn) error { return client.Close() }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close() //nolint:errcheck // the test is over
			client, err := net.Dial("tcp", listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close() //nolint:errcheck // the connection may be closed already
			server, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close() //nolint:errcheck // the connection may be closed already
			if err := tt.end(client, server.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			// On loopback, a send returns only after the packet has been delivered.
			if got := closedByPeer(client); got != tt.want {
				t.Errorf("closedByPeer is %v, want %v", got, tt.want)
			}
			if got := closedByPeer(tls.Client(client, nil)); got != tt.want {
				t.Errorf("closedByPeer with TLS is %v, want %v", got, tt.want)
			}
		})
	}
}
