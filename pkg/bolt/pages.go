package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
)

// bbolt's file format: pages of one size, each with a header; see its package internal/common.
const (
	pageHeader  = 16 // id, flags, number of elements, number of further pages
	elementSize = 16
	bucketSize  = 16 // page of the root, 0 if the root follows; sequence
	metaSize    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	metaPage     = 0x04
	freelistPage = 0x10
	bucketLeaf   = 0x01

	noFreelist = math.MaxUint64 // pages that belong to nothing are free

	magic         = 0xED0CDAED
	formatVersion = 2
	maxProblems   = 20
)

var order = binary.NativeEndian

// structure is what verifyPages finds. bbolt verifies only the two pages that begin a file. From
// damage elsewhere, its transactions and its Tx.Check panic, read memory that is not theirs, or
// take fewer entries for all.
type structure struct {
	file     io.ReaderAt
	size     int64    // of a page
	pages    uint64   // how many pages are in use or free
	taken    []bool   // by page
	buffers  [][]byte // by depth
	problems []string // at most maxProblems
	last     bool     // the only problem is that one of the first two pages is damaged, so the last write may be missing
}

type meta struct{ root, freelist, pages, txid uint64 }

func (s *structure) report(format string, args ...any) {
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// verifyFile is verifyPages for the file at path. Nobody may be writing to it.
func verifyFile(path string) (*structure, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return verifyPages(file, info.Size()), nil
}

// verifyPages reads all pages of a bbolt file that are in use. It finds every page that is missing
// or is not the one that was written there, unless only the content of keys or values differs.
func verifyPages(file io.ReaderAt, length int64) *structure {
	s := &structure{file: file}
	m, ok := s.header()
	if !ok {
		s.report("it has no header")
		return s
	}
	lost := len(s.problems)
	s.pages = m.pages
	if m.pages > uint64(length/s.size) {
		s.report("it has %d bytes instead of %d", length, m.pages*uint64(s.size))
		return s
	}
	s.taken = make([]bool, m.pages)
	s.tree(m.root, nil, nil, 0)
	if m.freelist != noFreelist {
		s.free(m.freelist)
		for id, taken := range s.taken {
			if id > 1 && !taken && len(s.problems) == lost {
				s.report("page %d belongs to nothing", id)
			}
		}
	}
	s.last = lost == 1 && len(s.problems) == lost
	return s
}

// header reads the first two pages. The one with the higher transaction id counts.
func (s *structure) header() (latest meta, ok bool) {
	damaged := -1
	for id := range int64(2) {
		m, size, err := s.meta(id)
		switch {
		case err != nil:
			damaged = int(id)
		case !ok || m.txid > latest.txid:
			latest, s.size, ok = m, size, true
		}
	}
	if ok && damaged >= 0 {
		s.report("page %d is damaged, so the last write may be missing", damaged)
	}
	return latest, ok
}

var errMeta = errors.New("not a valid first page")

// meta reads page 0 or 1. If page 0 is damaged, the page size is not known: 1 KB to 16 MB.
func (s *structure) meta(id int64) (m meta, size int64, err error) {
	sizes := []int64{s.size}
	if s.size == 0 && id == 1 {
		for size := int64(1024); size <= 16<<20; size *= 2 {
			sizes = append(sizes, size)
		}
	}
	b := make([]byte, pageHeader+metaSize)
	for _, at := range sizes {
		if _, err := s.file.ReadAt(b, id*at); err != nil {
			break
		}
		sum := fnv.New64a()
		sum.Write(b[pageHeader : pageHeader+56])
		size = int64(order.Uint32(b[24:]))
		valid := order.Uint64(b) == uint64(id) && order.Uint16(b[8:]) == metaPage && order.Uint32(b[16:]) == magic &&
			order.Uint32(b[20:]) == formatVersion && order.Uint64(b[72:]) == sum.Sum64()
		if valid && (id == 0 || at == size) {
			return meta{root: order.Uint64(b[32:]), freelist: order.Uint64(b[48:]), pages: order.Uint64(b[56:]), txid: order.Uint64(b[64:])}, size, nil
		}
	}
	return m, 0, errMeta
}

// load reads a page with the pages that continue it, which must be in nobody else's use. It returns
// nil if that is not so. The page is valid until load is called with the same depth.
func (s *structure) load(id uint64, depth int, flags ...uint16) []byte {
	if id < 2 || id >= s.pages {
		s.report("page %d is not in the file", id)
		return nil
	}
	for len(s.buffers) <= depth {
		s.buffers = append(s.buffers, make([]byte, s.size))
	}
	page := s.buffers[depth][:s.size]
	if _, err := s.file.ReadAt(page, int64(id)*s.size); err != nil {
		s.report("page %d cannot be read: %v", id, err)
		return nil
	}
	known := false
	for _, f := range flags {
		known = known || order.Uint16(page[8:]) == f
	}
	further := uint64(order.Uint32(page[12:]))
	if order.Uint64(page) != id || !known || id+further >= s.pages {
		s.report("page %d has the wrong header", id)
		return nil
	}
	for i := id; i <= id+further; i++ {
		if s.taken[i] {
			s.report("page %d is used twice", i)
			return nil
		}
		s.taken[i] = true
	}
	if further == 0 {
		return page
	}
	page = append(page, make([]byte, int64(further)*s.size)...)
	s.buffers[depth] = page
	if _, err := s.file.ReadAt(page[s.size:], int64(id+1)*s.size); err != nil {
		s.report("the pages after %d cannot be read: %v", id, err)
		return nil
	}
	return page
}

// tree verifies the pages below id, whose keys must be at least low and less than high, unless these
// are nil.
func (s *structure) tree(id uint64, low, high []byte, depth int) {
	page := s.load(id, depth, branchPage, leafPage)
	if page == nil {
		return
	}
	end, ok := s.elements(page, id, low, high)
	if ok && (end+int(s.size)-1)/int(s.size)*int(s.size) != len(page) {
		s.report("page %d has the wrong length", id)
		ok = false
	}
	if ok {
		s.below(page, id, high, depth)
	}
}

// element returns where an element of a page has its key and value, beginning at the start of the page.
func element(page []byte, i int) (key, value, end int) {
	at := pageHeader + i*elementSize
	e := page[at : at+elementSize]
	if order.Uint16(page[8:]) == branchPage {
		key = at + int(order.Uint32(e))
		value = key + int(order.Uint32(e[4:]))
		return key, value, value
	}
	key = at + int(order.Uint32(e[4:]))
	value = key + int(order.Uint32(e[8:]))
	return key, value, value + int(order.Uint32(e[12:]))
}

// elements verifies the elements of a page: bbolt writes them one behind the other, in the order of
// their keys. It returns where the last one ends.
func (s *structure) elements(page []byte, id uint64, low, high []byte) (end int, ok bool) {
	n := int(order.Uint16(page[10:]))
	end = pageHeader + n*elementSize
	if end > len(page) {
		s.report("page %d has too many entries", id)
		return 0, false
	}
	if n == 0 && order.Uint16(page[8:]) == branchPage {
		s.report("page %d has no entries", id)
		return 0, false
	}
	previous := low
	for i := range n {
		key, value, next := element(page, i)
		if key != end || value < key || next < value || next > len(page) {
			s.report("entry %d of page %d is not where it should be", i, id)
			return 0, false
		}
		k := page[key:value]
		if c := bytes.Compare(previous, k); c > 0 || c == 0 && i > 0 || high != nil && bytes.Compare(k, high) >= 0 {
			s.report("entry %d of page %d is not in order", i, id)
			return 0, false
		}
		previous, end = k, next
	}
	return end, true
}

// below verifies the pages to which the elements of a page refer.
func (s *structure) below(page []byte, id uint64, high []byte, depth int) {
	n := int(order.Uint16(page[10:]))
	branch := order.Uint16(page[8:]) == branchPage
	for i := range n {
		at := pageHeader + i*elementSize
		key, value, end := element(page, i)
		switch flags := order.Uint32(page[at:]); {
		case branch:
			above := high
			if i < n-1 {
				next, nextEnd, _ := element(page, i+1)
				above = page[next:nextEnd]
			}
			s.tree(order.Uint64(page[at+8:]), page[key:value], above, depth+1)
		case flags == bucketLeaf:
			s.bucket(page[value:end], id, depth)
		case flags != 0:
			s.report("entry %d of page %d is of an unknown kind", i, id)
		}
	}
}

// bucket verifies the bucket in value, an entry of page id.
func (s *structure) bucket(value []byte, id uint64, depth int) {
	if len(value) < bucketSize {
		s.report("a bucket in page %d is cut off", id)
		return
	}
	if root := order.Uint64(value); root != 0 {
		s.tree(root, nil, nil, depth+1)
		return
	}
	page := value[bucketSize:]
	if len(page) < pageHeader || order.Uint64(page) != 0 || order.Uint16(page[8:]) != leafPage || order.Uint32(page[12:]) != 0 {
		s.report("a bucket in page %d has the wrong header", id)
		return
	}
	if end, ok := s.elements(page, id, nil, nil); ok && end != len(page) {
		s.report("a bucket in page %d has the wrong length", id)
	} else if ok {
		s.below(page, id, nil, depth)
	}
}

// free verifies the list of free pages.
func (s *structure) free(id uint64) {
	page := s.load(id, 0, freelistPage)
	if page == nil {
		return
	}
	n, ids := uint64(order.Uint16(page[10:])), page[pageHeader:]
	if n == 0xFFFF {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if n > uint64(len(ids)/8) {
		s.report("page %d has too many entries", id)
		return
	}
	for i := range n {
		switch free := order.Uint64(ids[i*8:]); {
		case free < 2 || free >= s.pages:
			s.report("page %d, which is free, is not in the file", free)
			return
		case s.taken[free]:
			s.report("page %d is free and in use", free)
			return
		default:
			s.taken[free] = true
		}
	}
}
