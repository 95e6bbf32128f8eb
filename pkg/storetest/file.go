package storetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"sluice/pkg/api"
	"sluice/pkg/exportjob"
	"sluice/pkg/job"
	"sluice/pkg/record"
)

// partBytes is the minimum size that S3 requires of every part but the last.
const partBytes = 5 << 20

// odd is a workspace name that is dangerous in a path unless it is escaped.
const odd = "a workspace/of ../ é"

type FileStore struct {
	exportjob.Files
	Read func(t *testing.T, f exportjob.File) []byte // returns nil if there is no file
}

// File uploads a file that consists of one part, and returns it.
func File(t *testing.T, files exportjob.Files, workspace, id, content string) exportjob.File {
	t.Helper()
	s := FileStore{Files: files}
	f := putPart(t, s, upload(t, s, workspace, id), []byte(content))
	complete(t, s, f)
	return f
}

// Files tests an exportjob.Files. open returns an empty store.
func Files(t *testing.T, open func(t *testing.T) FileStore) {
	runAll(t, open, []test[FileStore]{
		{"a file consists of its parts in order and exists only once it is complete", testParts},
		{"a part has the content that was put last", testPartAgain},
		{"empty and small files are possible", testSmallFiles},
		{"an upload that differs from the job is rejected", testOtherParts},
		{"an aborted upload no longer exists", testAbort},
		{"a file can be deleted, uploaded again and deleted again", testFileDelete},
		{"a new upload replaces the file", testFileReplace},
	})
}

func newFile(workspace, id string) exportjob.File {
	return exportjob.NewFile(job.Job{Workspace: workspace, ID: id, CreatedAt: record.TimeOf(jobsCreatedAt)}, api.ExportOrder{Resource: record.Event, Format: record.NDJSON})
}

func upload(t *testing.T, s FileStore, workspace, id string) exportjob.File {
	t.Helper()
	f := newFile(workspace, id)
	var err error
	if f.Upload, err = s.Start(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	return f
}

// part returns n pseudorandom bytes, which are determined by the seed.
func part(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // this Read never fails
	return b
}

// putPart uploads b as the next part of f, and returns f with that part added.
func putPart(t *testing.T, s FileStore, f exportjob.File, b []byte) exportjob.File {
	t.Helper()
	n := len(f.Parts) + 1
	etag, err := s.Put(t.Context(), f, n, b)
	if err != nil {
		t.Fatal(err)
	}
	f.Parts = append(f.Parts[:n-1:n-1], etag)
	f.Size += int64(len(b))
	return f
}

// complete calls Complete twice, as a worker does if the first response is lost.
func complete(t *testing.T, s FileStore, f exportjob.File) {
	t.Helper()
	for range 2 {
		if err := s.Complete(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFile(t *testing.T, s FileStore, f exportjob.File, parts ...[]byte) {
	t.Helper()
	if got, want := s.Read(t, f), bytes.Join(parts, nil); !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes, not the %d that were put", len(got), len(want))
	}
}

func testParts(t *testing.T, s FileStore) {
	f := upload(t, s, odd, "a")
	one, two, three := part(1, partBytes), part(2, partBytes+1), part(3, 1)
	f = putPart(t, s, putPart(t, s, putPart(t, s, f, one), two), three)
	if got := s.Read(t, f); got != nil {
		t.Errorf("a file of %d bytes exists before the upload is complete", len(got))
	}
	complete(t, s, f)
	wantFile(t, s, f, one, two, three)
	if err := s.Abort(t.Context(), f); err != nil {
		t.Error(err)
	}
	wantFile(t, s, f, one, two, three)
}

func testPartAgain(t *testing.T, s FileStore) {
	f := upload(t, s, odd, "a")
	putPart(t, s, f, part(9, partBytes))
	f = putPart(t, s, f, part(1, partBytes))
	complete(t, s, putPart(t, s, f, part(2, 10)))
	wantFile(t, s, f, part(1, partBytes), part(2, 10))
}

func testSmallFiles(t *testing.T, s FileStore) {
	for id, b := range map[string][]byte{"one": part(1, 1), "gzip-of-nothing": part(2, 23)} {
		f := putPart(t, s, upload(t, s, odd, id), b)
		complete(t, s, f)
		wantFile(t, s, f, b)
	}
}

func testOtherParts(t *testing.T, s FileStore) {
	whole := putPart(t, s, putPart(t, s, upload(t, s, odd, "a"), part(1, partBytes)), part(2, 10))
	missing := whole
	missing.Parts = append(missing.Parts[:2:2], whole.Parts[0])
	if err := s.Complete(t.Context(), missing); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("with a missing part: %v", err)
	}
	overwritten := whole
	putPart(t, s, exportjob.File{Key: whole.Key, Name: whole.Name, Upload: whole.Upload}, part(3, partBytes))
	if err := s.Complete(t.Context(), overwritten); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("with a part that another worker replaced: %v", err)
	}
	if got := s.Read(t, whole); got != nil {
		t.Errorf("there is a file of %d bytes", len(got))
	}
}

func testAbort(t *testing.T, s FileStore) {
	f := putPart(t, s, upload(t, s, odd, "a"), part(1, 10))
	for range 2 {
		if err := s.Abort(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Put(t.Context(), f, 2, part(2, 10)); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("put: %v", err)
	}
	if err := s.Complete(t.Context(), f); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("complete: %v", err)
	}
	if got := s.Read(t, f); got != nil {
		t.Errorf("there is a file of %d bytes", len(got))
	}
	if err := s.Abort(t.Context(), newFile(workspace, "never-started")); err != nil {
		t.Errorf("abort of no upload: %v", err)
	}
}

func testFileDelete(t *testing.T, s FileStore) {
	other := File(t, s, odd, "other", "stays")
	for range 2 {
		f := putPart(t, s, upload(t, s, odd, "a"), part(1, 10))
		complete(t, s, f)
		for range 2 {
			if err := s.Delete(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Read(t, f); got != nil {
			t.Errorf("there is a file of %d bytes", len(got))
		}
	}
	wantFile(t, s, other, []byte("stays"))
}

func testFileReplace(t *testing.T, s FileStore) {
	first, second := upload(t, s, odd, "a"), upload(t, s, odd, "a")
	if first.Upload == second.Upload {
		t.Fatalf("both uploads are %s", first.Upload)
	}
	first, second = putPart(t, s, first, part(1, 100)), putPart(t, s, second, part(2, 101))
	complete(t, s, first)
	wantFile(t, s, first, part(1, 100))
	complete(t, s, second)
	wantFile(t, s, second, part(2, 101))
}
