package storetest

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

const entityWalkCount = 450

// WalkEntities creates entities and lists them in pages of 1, 7, 50 and 200. Each list must be
// in order and contain each entity once.
func WalkEntities(t *testing.T, open OpenEntities) {
	s := open.store(t)
	var entities []entity.Entity
	for i := range entityWalkCount {
		h := fnv.New64a()
		fmt.Fprintf(h, "entity %d", i)
		n := h.Sum64()
		e := plainEntity(fmt.Sprintf("%x", n))
		e.Type = fmt.Sprintf("type-%d", n>>24%10)
		e.Attributes = record.Attributes(`{"note":"` + strings.Repeat("x", int(50+n>>32%200)) + `"}`)
		entities = append(entities, e)
	}
	entityKind.fill(t, s, workspace, entities...)
	for _, typ := range []string{"", "type-3"} {
		want := slices.DeleteFunc(slices.Clone(entities), func(e entity.Entity) bool { return typ != "" && e.Type != typ })
		for _, limit := range []int{1, 7, 50, 200} {
			t.Run(fmt.Sprintf("%d of type %q by %d", len(want), typ, limit), func(t *testing.T) {
				listEntities(t.Context(), s, workspace, typ).check(t, want, limit)
			})
		}
	}
}
