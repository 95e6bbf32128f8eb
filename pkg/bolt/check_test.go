package bolt

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"sluice/pkg/entity"
	"sluice/pkg/event"
	"sluice/pkg/index"
	"sluice/pkg/record"
)

// populate stores records of all kinds, some larger than a page, and deletes some of them.
func populate(t *testing.T, s *Stores, random *rand.Rand, n int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprintf("e%d", random.IntN(n))
		attributes := record.Attributes(fmt.Sprintf(`{"email":"%s@example.com","n":%d,"note":%q}`, id, i, strings.Repeat("x", random.IntN(300)*random.IntN(40))))
		_, _, err := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: id, Type: "person", Attributes: attributes})
		if err == nil || record.CodeOf(err) == record.Conflict {
			_, _, err = s.Events.Create(t.Context(), fmt.Sprintf("w%d", i%3), event.Draft{ID: fmt.Sprintf("v%d", i), Name: "n", EntityID: id})
		}
		if err == nil && i%5 == 0 {
			err = entity.Delete(t.Context(), s.Entities, "default", id, nil)
		}
		if err == nil && i%50 == 0 {
			_, err = s.Erasures.Request(t.Context(), "default", id)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// filled returns a data directory with records, whose files have no free pages of an earlier time.
func filled(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s, err := Open(dir, Config{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Indexes.Add(t.Context(), index.Declaration{Workspace: "default", Type: "person", Fields: index.Fields{{Name: "email", ValueType: index.Text}, {Name: "n", ValueType: index.Number}}, Place: 1, State: index.Ready}, nil)
	if err != nil {
		t.Fatal(err)
	}
	names := index.EventNames("w1")
	names.Place, names.State = 1, index.Ready
	if names, err = s.Indexes.Add(t.Context(), names, nil); err != nil {
		t.Fatal(err)
	}
	s.Indexed.Store(index.NewSet([]index.Declaration{d, names}))
	populate(t, s, rand.New(rand.NewPCG(1, 2)), n)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestCheckAgreesWithBbolt(t *testing.T) {
	t.Parallel()
	dir := filled(t, 200)
	r, err := Check(t.Context(), dir)
	if err != nil || len(r.Problems) > 0 || r.Entities == 0 || r.Tombstones == 0 || r.Events == 0 || r.Jobs == 0 {
		t.Errorf("%+v, error %v", r, err)
	}
	err = viewFile(filepath.Join(dir, recordsFile), func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			t.Error(err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckFindsWhereIndexesAndRecordsDiffer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(workspace *bbolt.Bucket) error
		want   string
	}{
		"an entry is missing": {func(b *bbolt.Bucket) error {
			return b.Bucket([]byte(byType)).Bucket([]byte("person")).Delete([]byte("ada"))
		}, `"ada" is not in the index by_type/person`},
		"an entry has no record": {func(b *bbolt.Bucket) error { return b.Bucket([]byte(byKey)).Delete([]byte("ada")) }, "the index by_type has 1 entries instead of 0"},
		"a record has the wrong key": {func(b *bbolt.Bucket) error {
			records := b.Bucket([]byte(byKey))
			return records.Put([]byte("bob"), records.Get([]byte("ada")))
		}, `"bob": it is another one`},
		"a bit of a record was flipped": {func(b *bbolt.Bucket) error {
			records := b.Bucket([]byte(byKey))
			value := slices.Clone(records.Get([]byte("ada")))
			value[len(value)/2] ^= 1
			return records.Put([]byte("ada"), value)
		}, "another checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := openDir(t, dir)
			createEntity(t, s, "ada")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			err := updateFile(filepath.Join(dir, recordsFile), func(tx *bbolt.Tx) error {
				return tt.change(tx.Bucket([]byte("entities")).Bucket([]byte("default")))
			})
			if err != nil {
				t.Fatal(err)
			}
			check := func(r *Report, err error) {
				t.Helper()
				if err != nil || !strings.Contains(strings.Join(r.Problems, "\n"), tt.want) {
					t.Errorf("%+v, error %v, want %q", r, err, tt.want)
				}
			}
			check(Check(t.Context(), dir))
			path := filepath.Join(t.TempDir(), "backup.zip")
			if _, err := WriteBackup(path, func(w io.Writer) error { return Backup(t.Context(), dir, w) }); err != nil {
				t.Fatal(err)
			}
			check(Restore(t.Context(), path, t.TempDir())) // what is left is better than nothing
		})
	}
}

// damages are what disks and careless copies do to a page.
var damages = map[string]func(random *rand.Rand, file []byte, page, size int) []byte{
	"cut off": func(_ *rand.Rand, file []byte, page, size int) []byte { return file[:page*size] },
	"zeroed": func(_ *rand.Rand, file []byte, page, size int) []byte {
		clear(file[page*size : (page+1)*size])
		return file
	},
	"swapped": func(random *rand.Rand, file []byte, page, size int) []byte {
		other := random.IntN(len(file)/size) * size
		was := slices.Clone(file[page*size : (page+1)*size])
		copy(file[page*size:], file[other:other+size])
		copy(file[other:], was)
		return file
	},
	"a flipped bit in the header": func(random *rand.Rand, file []byte, page, size int) []byte {
		file[page*size+random.IntN(16)] ^= 1 << random.IntN(8)
		return file
	},
}

// What a server would read of a damaged file is what was written, or the damage is found first.
func TestDamageIsFoundBeforeItIsRead(t *testing.T) {
	t.Parallel()
	dir := filled(t, 120)
	path := filepath.Join(dir, recordsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := content(t, path)
	size := os.Getpagesize()
	pages := int(pagesOf(t, path))
	random := rand.New(rand.NewPCG(3, 4))
	for _, name := range slices.Sorted(maps.Keys(damages)) {
		for i := range 10 {
			page := random.IntN(pages)
			if i == 0 {
				page = 0
			}
			if err := os.WriteFile(path, damages[name](random, slices.Clone(whole), page, size), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := Check(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Problems) > 0 {
				continue
			}
			if got := content(t, path); got != want {
				t.Errorf("%s: page %d: not found", name, page)
			}
		}
	}
}

func pagesOf(t *testing.T, path string) uint64 {
	t.Helper()
	s, err := verifyFile(path)
	if err != nil || len(s.problems) > 0 {
		t.Fatal(s.problems, err)
	}
	return s.pages
}

// content returns everything in a bbolt file.
func content(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	var walk func(b *bbolt.Bucket)
	walk = func(b *bbolt.Bucket) {
		for key, value := range scan(b, "", "", true) {
			fmt.Fprintf(&all, "%q %q\n", key, value)
			if value == nil {
				walk(b.Bucket(key))
			}
		}
	}
	err := viewFile(path, func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error { fmt.Fprintf(&all, "%q\n", name); walk(b); return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
