// Command hello is the least that an HTTP server in Go can be. It prints its
// address.
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
)

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("hello listens on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"message":"hello"}` + "\n")) //nolint:errcheck // the client may have gone
	})))
}
