// Package dashboard contains the web page for finding records, watching limits, starting large
// exports, importing files and administration. It is plain HTML, CSS and JavaScript, and a
// WebAssembly program that reads files as "sluice import" does.
//
// The page calls the API and loads its own files by relative URLs, so it works under any stage
// or domain. It must comply with the Content-Security-Policy that package httpapi sends with
// it: no scripts, styles or style attributes in the HTML, and no conversion of text to markup.
// The folder page/vendor has the files of other projects, with their licenses and checksums.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

const Page = "index.html"

// program is the importer, which "make importer" builds last.
const program = "importer.wasm.gz"

//go:embed page importer/worker.js built
var embedded embed.FS

// parts are the source files that make up app.js, the script that a browser loads. They share
// one scope, like the files of a Go package. The last one starts the page.
var parts = []string{
	"lib.js", "format.js", "api.js", "time.js", "poll.js", "route.js", "ui.js", "notice.js", "caller.js", "values.js",
	"chart.js", "identities.js", "usage.js", "job.js", "exports.js",
	"lists.js", "find.js", "columns.js", "table.js", "filters.js", "records.js",
	"edit.js", "conflict.js", "erase.js", "pane.js", "record.js",
	"importfile.js", "importsetup.js", "importreport.js", "importsend.js", "importer.js", "app.js",
}

// adminParts make up admin.js, which the page loads when somebody opens a view of administration. The
// first one imports what the others use of app.js, and the last one has the views.
var adminParts = []string{"admin/page.js", "admin/panel.js", "admin/keys.js", "admin/newkey.js", "admin/limits.js", "admin/indexes.js", "admin/audit.js", "admin/views.js"}

// libraries are the files of other projects with which app.js begins, unchanged.
var libraries = []string{"preact-10.29.8.js", "preact-hooks-10.29.8.js", "htm-3.1.1.js"}

const notices = "/*! Preact, (c) 2015-present Jason Miller, MIT License; htm, (c) Google LLC, Apache License 2.0 */"

type asset struct {
	name    string
	content func() []byte
}

// Files returns the page, under the name Page, and its assets, with the importer that was built
// before this program, if any. The name of each asset begins with a hash of all assets and a
// slash, so the content behind that name never changes, and a new version of the page loads new
// assets. In the hash, the importer's checksum stands for it, and it is read only when it is first
// asked for: that takes half as long as the whole start of a Lambda function.
func Files() map[string]func() []byte {
	built, err := fs.Sub(embedded, "built")
	if err != nil {
		panic(err) // cannot happen, because the name is valid
	}
	return FilesWith(built)
}

// FilesWith is like Files, but takes the importer from a directory into which "make importer"
// has built it, and whose files are io.ReaderAts. If the importer is not there, the page has no import.
func FilesWith(built fs.FS) map[string]func() []byte {
	assets := []asset{
		{"app.js", content(script())},
		{"admin.js", content(joined(adminParts))},
		{"style.css", content(read("page/style.css"))},
		{"icon.svg", content(read("page/icon.svg"))},
	}
	sum := sha256.New()
	importer := importerAssets(built, sum)
	for _, a := range assets {
		sum.Write(a.content())
	}
	assets = append(assets, importer...)
	version := hex.EncodeToString(sum.Sum(nil)[:8])
	attributes := ""
	if importer != nil {
		attributes = fmt.Sprintf(`data-worker="dashboard/%[1]s/importer.js" data-program="dashboard/%[1]s/%[2]s"`, version, program)
	}
	page := bytes.ReplaceAll(read("page/"+Page), []byte("{version}"), []byte(version))
	page = bytes.Replace(page, []byte("{icons}"), read("page/vendor/lucide-1.62.0.svg"), 1)
	files := map[string]func() []byte{Page: content(bytes.ReplaceAll(page, []byte("{importer}"), []byte(attributes)))}
	for _, a := range assets {
		files[version+"/"+a.name] = a.content
	}
	return files
}

// Built returns when the importer in a directory was built, or the zero time if it is not there.
func Built(built fs.FS) time.Time {
	info, err := fs.Stat(built, program)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// script joins the libraries, each in a scope of its own, and the parts.
func script() []byte {
	all := [][]byte{[]byte(notices)}
	for _, name := range libraries {
		all = append(all, fmt.Appendf(nil, "(function () {\n%s\n}).call(globalThis);", read("page/vendor/"+name)))
	}
	return bytes.Join(append(all, joined(parts)), []byte("\n"))
}

func joined(names []string) []byte {
	var all [][]byte
	for _, name := range names {
		all = append(all, read("page/"+name))
	}
	return bytes.Join(all, []byte("\n"))
}

// importerAssets adds the importer to a hash, and returns nil if it has not been built. The script
// of the web worker is one file, because the page's Trusted Types forbid importScripts.
func importerAssets(built fs.FS, sum io.Writer) []asset {
	support, err := fs.ReadFile(built, "wasm_exec.js")
	if err != nil {
		return nil
	}
	worker := bytes.Join([][]byte{support, read("importer/worker.js")}, []byte("\n"))
	sum.Write(worker) //nolint:errcheck // a hash
	wasm, size, err := open(built)
	if err != nil {
		return nil
	}
	// The last 8 bytes are the CRC-32 and the length of what the file unpacks to (RFC 1952).
	if _, err := io.Copy(sum, io.NewSectionReader(wasm.(io.ReaderAt), size-8, 8)); err != nil {
		return nil
	}
	return []asset{{"importer.js", content(worker)}, {program, sync.OnceValue(func() []byte {
		defer wasm.Close() //nolint:errcheck // opened for reading only
		b := make([]byte, size)
		n, _ := io.ReadFull(wasm, b) // also if another importer has been built meanwhile
		return b[:n]
	})}}
}

// open opens the program, and returns its size.
func open(built fs.FS) (wasm fs.File, size int64, err error) {
	if wasm, err = built.Open(program); err != nil {
		return nil, 0, err
	}
	info, err := wasm.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, wasm.Close())
	}
	return wasm, info.Size(), nil
}

func content(b []byte) func() []byte { return func() []byte { return b } }

func read(name string) []byte {
	b, err := embedded.ReadFile(name)
	if err != nil {
		panic(err) // cannot happen, because the file is embedded above
	}
	return b
}
