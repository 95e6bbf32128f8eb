package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"sluice/pkg/entity"
	"sluice/pkg/record"
)

const ifMatch = "If-Match"

// etag returns the ETag of an entity with a revision (RFC 9110, section 8.8.3).
func etag(revision int64) string { return fmt.Sprintf("%q", strconv.FormatInt(revision, 10)) }

// condition returns the condition of a change: what If-Match says, or ifRevision, the member of the
// body; nil if both are absent.
func (r *request) condition(ifRevision *int64) (*entity.Condition, error) {
	values := r.Header.Values(ifMatch)
	switch {
	case len(values) > 0 && ifRevision != nil:
		return nil, unfit("the header If-Match and the member if_revision cannot be combined", "if_revision", "cannot be combined with If-Match")
	case len(values) > 0:
		return parseIfMatch(strings.Join(values, ", "))
	case ifRevision != nil:
		return &entity.Condition{Revision: *ifRevision}, nil
	}
	return nil, nil
}

// parseIfMatch accepts "7" and, because a proxy that compresses a response weakens its ETag, W/"7".
func parseIfMatch(text string) (*entity.Condition, error) {
	if text == "*" {
		return &entity.Condition{Any: true}, nil
	}
	revision, err := strconv.ParseInt(strings.Trim(text, `W/"`), 10, 64)
	if tag := etag(revision); err != nil || revision < 0 || text != tag && text != "W/"+tag {
		return nil, badRequest("invalid_if_match", fmt.Sprintf(`If-Match must be * or one ETag of GET /entity/{id}, such as "7", not %s`, record.Shorten(text)))
	}
	return &entity.Condition{Revision: revision}, nil
}

// unconditional rejects If-Match on a route that does not know it. The route would otherwise write
// although the client has asked it not to.
func (r *request) unconditional() error {
	if len(r.Header.Values(ifMatch)) == 0 {
		return nil
	}
	return badRequest("invalid_if_match", "this route takes no If-Match; use it with update_entity and delete_entity, or if_revision in a record of upsert_entities")
}

// unfit says that parts of a request cannot be combined.
func unfit(detail, field, fieldDetail string) error {
	return &apiError{status: http.StatusUnprocessableEntity, code: "invalid_combination", detail: detail, fields: record.Fields{{Field: field, Detail: fieldDetail}}}
}
