package storetest

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"sluice/pkg/exportjob"
)

// partBytes is the minimum size that S3 requires of every part but the last.
const partBytes = 5 << 20

// odd is a workspace name that is dangerous in a path if it is not escaped.
const odd = "a workspace/of ../ é"

// FileStore is an exportjob.Files whose files a test can read.
type FileStore struct {
	exportjob.Files
	Read func(t *testing.T, j exportjob.Job) []byte // returns the content of the job's file; nil if the file does not exist
}

// File stores a file with the given content for a new job, and returns the job.
func File(t *testing.T, files exportjob.Files, workspace, id, content string) exportjob.Job {
	t.Helper()
	f := FileStore{Files: files}
	j := putPart(t, f, upload(t, f, workspace, id), []byte(content))
	complete(t, f, j)
	return j
}

// Files checks that the files returned by open fulfill the contract of exportjob.Files. Each
// call of open must return an empty store.
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

// upload starts an upload for a new job.
func upload(t *testing.T, f FileStore, workspace, id string) exportjob.Job {
	t.Helper()
	j := plainExportJob(id)
	j.Workspace = workspace
	var err error
	if j.Progress.Upload, err = f.Start(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	return j
}

// part returns n pseudorandom bytes, the same for the same seed.
func part(seed byte, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(b) // this Read never returns an error
	return b
}

// putPart uploads b as the next part and adds it to the job.
func putPart(t *testing.T, f FileStore, j exportjob.Job, b []byte) exportjob.Job {
	t.Helper()
	n := len(j.Progress.Parts) + 1
	etag, err := f.Put(t.Context(), j, n, b)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(b))
	j.Progress.Parts = append(j.Progress.Parts[:n-1:n-1], etag)
	if j.SizeBytes != nil {
		size += *j.SizeBytes
	}
	j.SizeBytes = &size
	return j
}

// complete completes an upload twice, as a worker does if the first response was
// lost.
func complete(t *testing.T, f FileStore, j exportjob.Job) {
	t.Helper()
	for range 2 {
		if err := f.Complete(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFile(t *testing.T, f FileStore, j exportjob.Job, parts ...[]byte) {
	t.Helper()
	if got, want := f.Read(t, j), bytes.Join(parts, nil); !bytes.Equal(got, want) {
		t.Errorf("the file has %d bytes, not the %d that were put", len(got), len(want))
	}
}

func testParts(t *testing.T, f FileStore) {
	j := upload(t, f, odd, "a")
	one, two, three := part(1, partBytes), part(2, partBytes+1), part(3, 1)
	j = putPart(t, f, putPart(t, f, putPart(t, f, j, one), two), three)
	if got := f.Read(t, j); got != nil {
		t.Errorf("a file of %d bytes exists before the upload is complete", len(got))
	}
	complete(t, f, j)
	wantFile(t, f, j, one, two, three)
	if err := f.Abort(t.Context(), j); err != nil {
		t.Error(err)
	}
	wantFile(t, f, j, one, two, three)
}

func testPartAgain(t *testing.T, f FileStore) {
	j := upload(t, f, odd, "a")
	putPart(t, f, j, part(9, partBytes))
	j = putPart(t, f, j, part(1, partBytes))
	complete(t, f, putPart(t, f, j, part(2, 10)))
	wantFile(t, f, j, part(1, partBytes), part(2, 10))
}

func testSmallFiles(t *testing.T, f FileStore) {
	for id, b := range map[string][]byte{"one": part(1, 1), "gzip-of-nothing": part(2, 23)} {
		j := putPart(t, f, upload(t, f, odd, id), b)
		complete(t, f, j)
		wantFile(t, f, j, b)
	}
}

func testOtherParts(t *testing.T, f FileStore) {
	whole := putPart(t, f, putPart(t, f, upload(t, f, odd, "a"), part(1, partBytes)), part(2, 10))
	missing := whole
	missing.Progress.Parts = append(missing.Progress.Parts[:2:2], whole.Progress.Parts[0])
	if err := f.Complete(t.Context(), missing); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("with a missing part: %v", err)
	}
	overwritten := whole
	putPart(t, f, exportjob.Job{ID: whole.ID, Workspace: whole.Workspace, Resource: whole.Resource, Format: whole.Format, Progress: exportjob.Progress{Upload: whole.Progress.Upload}}, part(3, partBytes))
	if err := f.Complete(t.Context(), overwritten); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("with a part that another worker replaced: %v", err)
	}
	if got := f.Read(t, whole); got != nil {
		t.Errorf("there is a file of %d bytes", len(got))
	}
}

func testAbort(t *testing.T, f FileStore) {
	j := putPart(t, f, upload(t, f, odd, "a"), part(1, 10))
	for range 2 {
		if err := f.Abort(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Put(t.Context(), j, 2, part(2, 10)); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("put: %v", err)
	}
	if err := f.Complete(t.Context(), j); !errors.Is(err, exportjob.ErrUpload) {
		t.Errorf("complete: %v", err)
	}
	if got := f.Read(t, j); got != nil {
		t.Errorf("there is a file of %d bytes", len(got))
	}
	if err := f.Abort(t.Context(), plainExportJob("never-started")); err != nil {
		t.Errorf("abort of no upload: %v", err)
	}
}

func testFileDelete(t *testing.T, f FileStore) {
	other := File(t, f, odd, "other", "stays")
	for range 2 {
		j := putPart(t, f, upload(t, f, odd, "a"), part(1, 10))
		complete(t, f, j)
		for range 2 {
			if err := f.Delete(t.Context(), j); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.Read(t, j); got != nil {
			t.Errorf("there is a file of %d bytes", len(got))
		}
	}
	wantFile(t, f, other, []byte("stays"))
}

func testFileReplace(t *testing.T, f FileStore) {
	first, second := upload(t, f, odd, "a"), upload(t, f, odd, "a")
	if first.Progress.Upload == second.Progress.Upload {
		t.Fatalf("both uploads are %s", first.Progress.Upload)
	}
	first, second = putPart(t, f, first, part(1, 100)), putPart(t, f, second, part(2, 101))
	complete(t, f, first)
	wantFile(t, f, first, part(1, 100))
	complete(t, f, second)
	wantFile(t, f, second, part(2, 101))
}
