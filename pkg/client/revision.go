package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"sluice/pkg/api"
	"sluice/pkg/entity"
	"sluice/pkg/record"
)

// UpdateEntityFunc changes an entity by what is stored. It reads the entity, and makes the change
// that patch returns, as UpdateEntity does, if the entity still has the same revision. Otherwise,
// it reads the entity again and calls patch again, so no change of others is lost, and each
// successful call is one change. If patch returns nil, nothing is changed, and
// UpdateEntityFunc returns the entity as read. An error of patch is returned as it is.
//
// Each call of patch costs one record and, unless it returns nil, one import. After
// Config.MaxTries changes for revisions that were no longer current, or after Config.MaxElapsed,
// UpdateEntityFunc gives up; the error then matches [ErrRevisionMismatch] and is retryable.
//
// If a response is lost, the same change for the same revision is sent again. If the entity then
// has another revision, that may be due to this change, so patch is not called again, and the
// error matches [ErrUnknownOutcome]. A program that must know has to leave something
// in the attributes that it recognizes.
func (c *Client) UpdateEntityFunc(ctx context.Context, id string, patch func(entity.Entity) (record.Attributes, error)) (stored entity.Entity, err error) {
	rounds := retries{cfg: c.cfg, deadline: time.Now().Add(c.cfg.MaxElapsed)}
	for {
		e, err := c.GetEntity(ctx, id)
		if err != nil {
			return entity.Entity{}, err
		}
		attributes, err := patch(e)
		if err != nil {
			return entity.Entity{}, err
		}
		if attributes == nil {
			return e, nil
		}
		stored, err = c.UpdateEntityIf(ctx, id, e.Revision, attributes)
		failure, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrRevisionMismatch) {
			return stored, err
		}
		rounds.count++
		failure.Tries, failure.retryable = rounds.count, true
		if wait, again := rounds.next(ctx, failure); !again || !sleep(ctx, wait) {
			return entity.Entity{}, failure.ended(ctx)
		}
	}
}

// UpdateEntityIf is like UpdateEntity, but changes the entity only if it has the revision. The
// error matches [ErrRevisionMismatch] if the entity has another one or does not exist, and
// [ErrUnknownOutcome] if it is unknown whether the change was made.
func (c *Client) UpdateEntityIf(ctx context.Context, id string, revision int64, patch record.Attributes) (stored entity.Entity, err error) {
	err = c.postIf(ctx, route{"update-entity", http.MethodPost, classImport}, "/update_entity", struct {
		ID         string            `json:"id"`
		Attributes record.Attributes `json:"attributes"`
		IfRevision int64             `json:"if_revision"`
	}{id, patch, revision}, &stored)
	return stored, err
}

// DeleteEntityIf deletes an entity if it has the revision. Errors are as in UpdateEntityIf. If
// revision is 0, DeleteEntityIf deletes nothing, and fails if the entity exists.
func (c *Client) DeleteEntityIf(ctx context.Context, id string, revision int64) error {
	var deleted api.Deleted
	return c.postIf(ctx, route{"delete-entity", http.MethodPost, classImport}, "/delete_entity", struct {
		ID         string `json:"id"`
		IfRevision int64  `json:"if_revision"`
	}{id, revision}, &deleted)
}

// postIf is like post, for a change for a revision.
func (c *Client) postIf(ctx context.Context, r route, path string, body, out any) (err error) {
	k, unsure := call{route: r, path: path}, false
	if k.body, err = encode(body); err != nil {
		return err
	}
	err = c.repeat(ctx, &k, func(got response, failure *Error) *Error {
		if failure == nil {
			failure = decode(got.body, &required{"id", out})
		}
		unsure = unsure || failure.unsure()
		return failure
	})
	if failure, ok := errors.AsType[*Error](err); ok && unsure {
		return failure.asUnknown()
	}
	return err
}

// unsure reports whether the request that failed with e may have been carried out. e may be nil.
func (e *Error) unsure() bool {
	switch {
	case e == nil || !e.retryable:
		return false
	case e.Code == "rate_limiter_unavailable" || e.Code == "access_unavailable":
		return false // these come before the request does anything
	}
	if network, ok := errors.AsType[*net.OpError](e.Err); ok && network.Op == "dial" {
		return false // there was no connection
	}
	return e.Err != nil || e.Status >= http.StatusInternalServerError
}

// asUnknown returns a copy of e that matches ErrUnknownOutcome.
func (e *Error) asUnknown() *Error {
	u := *e
	u.unknown, u.retryable = true, false
	return &u
}
