//go:build js

package main

import (
	"bufio"
	"fmt"
	"io"
	"syscall/js"
)

// blob reads a file that the user chose. Only a web worker may read it synchronously.
type blob struct {
	file js.Value // a Blob
	size int64
}

func newBlob(file js.Value) blob { return blob{file, int64(file.Get("size").Float())} }

// ReadAt reads slice after slice, so that memory does not grow with the file.
func (b blob) ReadAt(p []byte, offset int64) (n int, err error) {
	defer func() {
		if thrown := recover(); thrown != nil {
			err = fmt.Errorf("the file cannot be read, perhaps because it has changed; choose it again (%v)", thrown)
		}
	}()
	for n < len(p) {
		read := js.Global().Call("readSlice", b.file, float64(offset+int64(n)), len(p)-n).Int()
		if read == 0 {
			return n, io.EOF
		}
		n += js.CopyBytesToGo(p[n:n+read], js.Global().Get("slice"))
	}
	return n, nil
}

// boms are the byte order marks that decide the encoding, as in the Encoding Standard.
var boms = map[string]string{"\xef\xbb\xbf": "utf-8", "\xff\xfe": "utf-16le", "\xfe\xff": "utf-16be"}

// decoder returns a reader of r's text in UTF-8. The browser has the tables of all encodings.
func decoder(encoding string, r io.Reader) (_ io.Reader, err error) {
	in := bufio.NewReader(r)
	for bom, marked := range boms {
		if start, _ := in.Peek(len(bom)); string(start) == bom {
			encoding = marked
		}
	}
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("the encoding %s is unknown; choose one such as windows-1252 or utf-16", encoding)
		}
	}()
	return &decodingReader{decoder: js.Global().Get("TextDecoder").New(encoding), in: in, bytes: make([]byte, 64<<10)}, nil
}

type decodingReader struct {
	decoder js.Value // a TextDecoder
	in      io.Reader
	bytes   []byte
	text    string // decoded, but not yet read
	err     error
}

func (d *decodingReader) Read(p []byte) (int, error) {
	for d.text == "" {
		if d.err != nil {
			return 0, d.err
		}
		var n int
		n, d.err = d.in.Read(d.bytes)
		array := js.Global().Get("Uint8Array").New(n)
		js.CopyBytesToJS(array, d.bytes[:n])
		d.text = d.decoder.Call("decode", array, map[string]any{"stream": d.err == nil}).String()
	}
	n := copy(p, d.text)
	d.text = d.text[n:]
	return n, nil
}
