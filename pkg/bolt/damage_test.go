package bolt

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// A page that cannot be read is a fault, which would end the process.
func TestDamageWhileTheFileIsOpenIsAnError(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{2, 0} { // pages; without the first two, no transaction can begin
		t.Run(fmt.Sprint(left), func(t *testing.T) { t.Parallel(); meetDamage(t, left*int64(os.Getpagesize())) })
	}
}

func meetDamage(t *testing.T, size int64) {
	s := openDir(t, t.TempDir())
	for _, id := range []string{"ada", "grace", "hedy"} {
		createEntity(t, s, id)
	}
	if err := s.Health(); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(s.Path, size); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		writer := s.Entities.table.update(t.Context(), "write", "default", func(records[entity.Change]) error { return nil })
		_, _, writeErr := entity.Create(t.Context(), s.Entities, "default", entity.Draft{ID: "new"})
		_, readErr := s.Entities.Get(t.Context(), "default", "ada")
		for what, err := range map[string]error{"a create": writeErr, "a read": readErr, "a write": writer} {
			if damaged, ok := errors.AsType[*DamageError](err); !ok || record.CodeOf(err) != record.Unavailable || damaged.Path != s.Path {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := s.Health(); err == nil || !strings.Contains(err.Error(), "sluice check") {
		t.Errorf("health: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestAFaultOfThisProgramIsNotDamage(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "a mistake" {
			t.Errorf("recovered %v", p)
		}
	}()
	err := guard("sluice.db", func() error { panic("a mistake") })
	t.Errorf("error %v", err)
}
