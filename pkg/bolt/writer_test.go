package bolt

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

func waiters(w *writer) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiting)
}

// shared starts all writes while a transaction is running, so that they join it. It returns the
// error of each write; a panic becomes an error.
func shared(t *testing.T, words *table[string], writes map[string]func(records[string]) error) map[string]error {
	t.Helper()
	var mu sync.Mutex
	var calls sync.WaitGroup
	ends := make(map[string]error)
	start := sync.OnceFunc(func() {
		for name, write := range writes {
			calls.Go(func() {
				var err error
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
					mu.Lock()
					defer mu.Unlock()
					ends[name] = err
				}()
				err = words.update(t.Context(), "put", "default", write)
			})
		}
		for waiters(words.writer) < len(writes) {
			runtime.Gosched()
		}
	})
	if err := words.writer.update(func(*bbolt.Tx) error { start(); return nil }); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	return ends
}

func TestConcurrentWritesShareATransaction(t *testing.T) {
	t.Parallel()
	words, _ := openWords(t, newFile(t))
	var transactions []int
	writes := make(map[string]func(records[string]) error)
	for i := range 50 {
		writes[fmt.Sprint(i)] = func(all records[string]) error {
			transactions = append(transactions, all.bucket.Tx().ID())
			return all.put(fmt.Sprint(i), "", false)
		}
	}
	for name, err := range shared(t, words, writes) {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(transactions) != len(writes) || len(slices.Compact(transactions)) != 1 {
		t.Errorf("%d writes in %d calls, in the transactions %v", len(writes), len(transactions), transactions)
	}
}

func TestAWriteThatFailsOrPanicsDoesNotUndoOthers(t *testing.T) {
	t.Parallel()
	words, _ := openWords(t, newFile(t))
	broken := errors.New("broken")
	put := func(word string, then func() error) func(records[string]) error {
		return func(all records[string]) error { return errors.Join(all.put(word, "", false), then()) }
	}
	ends := shared(t, words, map[string]func(records[string]) error{
		"a": put("a", func() error { return nil }),
		"b": put("b", func() error { return broken }),
		"c": put("c", func() error { return nil }),
		"d": put("d", func() error { panic("d") }),
		"e": put("e", func() error { return nil }),
	})
	for word, end := range ends {
		_, err := words.get(t.Context(), "word", "default", word)
		if (end == nil) != (err == nil) {
			t.Errorf("%s ended with %v, get: %v", word, end, err)
		}
	}
	if ends["a"] != nil || ends["c"] != nil || ends["e"] != nil || !errors.Is(ends["b"], broken) || fmt.Sprint(ends["d"]) != "panic: d" {
		t.Errorf("the writes ended with %v", ends)
	}
}
