// Command bare is a minimal HTTP server. It prints its address and responds to every request
// with the same JSON string. The argument is the size of that string in bytes:
//
//	bare 512
package main

import (
	"bytes"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
)

func main() {
	size, err := strconv.Atoi(os.Args[1])
	if err != nil || size < 2 {
		log.Fatalf("%q must be a whole number from 2", os.Args[1])
	}
	body := bytes.Repeat([]byte{'a'}, size)
	body[0], body[size-1] = '"', '"'
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("bare listens on http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.Write(body) //nolint:errcheck // the client may have disconnected
	})))
}
