package storetest

import (
	"errors"
	"fmt"
	"testing"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// testConditions changes entities that are live with the revision 2, deleted, or never existed.
func testConditions(t *testing.T, s entityStore) {
	any, at := &entity.Condition{Any: true}, func(n int64) *entity.Condition { return &entity.Condition{Revision: n} }
	update := func(id string, when *entity.Condition) error {
		_, err := entity.Update(t.Context(), s, workspace, id, record.Attributes(`{"a":3}`), when)
		return err
	}
	remove := func(id string, when *entity.Condition) error {
		return entity.Delete(t.Context(), s, workspace, id, when)
	}
	i := 0
	for name, change := range map[string]func(string, *entity.Condition) error{"update": update, "delete": remove} {
		for _, tt := range []struct {
			state   string
			when    *entity.Condition
			code    record.Code
			current int64
		}{
			{"live", at(2), 0, 0},
			{"live", any, 0, 0},
			{"live", at(1), record.Mismatch, 2},
			{"live", at(3), record.Mismatch, 2},
			{"live", at(0), record.Mismatch, 2},
			{"deleted", at(2), record.Mismatch, 0},
			{"deleted", at(3), record.Mismatch, 0},
			{"deleted", any, record.Mismatch, 0},
			{"deleted", at(0), record.NotFound, 0},
			{"never", at(1), record.Mismatch, 0},
			{"never", any, record.Mismatch, 0},
			{"never", at(0), record.NotFound, 0},
		} {
			i++
			id, want := fmt.Sprint("condition-", i), tt.code
			if tt.state != "never" {
				entityKind.fillPlain(t, s, workspace, id)
				if _, err := entity.Update(t.Context(), s, workspace, id, record.Attributes(`{"a":2}`), nil); err != nil {
					t.Fatal(err)
				}
			}
			if tt.state == "deleted" {
				remove(id, nil) //nolint:errcheck // the check below fails
			}
			if name == "delete" && want == record.NotFound { // there is nothing to delete
				want = 0
			}
			before := changesWith(t, s, id)
			err := change(id, tt.when)
			mismatch, isMismatch := errors.AsType[*record.Error](err)
			if record.CodeOf(err) != want || (err == nil) != (want == 0) || isMismatch && mismatch.Revision != tt.current {
				t.Errorf("%s of %s %s with %+v: error %v, want code %d and revision %d", name, tt.state, id, tt.when, err, want, tt.current)
			}
			after := changesWith(t, s, id)
			if changed := fmt.Sprint(before) != fmt.Sprint(after); changed != (tt.state == "live" && want == 0) {
				t.Errorf("%s of %s %s with %+v: %v became %v", name, tt.state, id, tt.when, before, after)
			}
		}
	}
}
