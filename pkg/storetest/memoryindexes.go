package storetest

import (
	"context"
	"errors"
	"slices"

	"sluice/pkg/index"
)

// memoryIndexes is an index.Store for tests of what uses one. It is not safe for concurrent use.
type memoryIndexes struct {
	all  []index.Declaration
	lost bool // whether the next Put or Remove fails without effect
}

var errKilled = errors.New("killed")

func (s *memoryIndexes) List(context.Context) ([]index.Declaration, error) {
	return slices.Clone(s.all), nil
}

func (s *memoryIndexes) Add(_ context.Context, d index.Declaration, _ []index.Declaration) (index.Declaration, error) {
	d.Revision = d.NextRevision()
	s.all = append(s.all, d)
	slices.SortFunc(s.all, index.Declaration.Compare)
	return d, nil
}

func (s *memoryIndexes) Put(_ context.Context, d index.Declaration) (index.Declaration, error) {
	if s.lost {
		return d, errKilled
	}
	d.Revision = d.NextRevision()
	s.all[s.at(d)] = d
	return d, nil
}

func (s *memoryIndexes) Remove(_ context.Context, d index.Declaration) error {
	if s.lost {
		return errKilled
	}
	s.all = slices.Delete(s.all, s.at(d), s.at(d)+1)
	return nil
}

func (s *memoryIndexes) at(d index.Declaration) int {
	return slices.IndexFunc(s.all, func(other index.Declaration) bool { return other.ID() == d.ID() })
}
