package jobs

import (
	"context"
	"log"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"

	"sluice/pkg/dynamo"
	"sluice/pkg/index"
)

// StartIndexes runs the function that builds and removes indexes. Each invocation works until margin
// before its timeout, and the next one continues. StartIndexes does not return: if the function cannot
// be set up, it exits the process.
func StartIndexes() {
	clients, err := connect(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	builder, err := dynamo.OpenBuilder(clients.DynamoDB, os.Getenv, clients.Clock)
	if err != nil {
		log.Fatal(err)
	}
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	lambda.Start(func(ctx context.Context) error { return work(ctx, builder, logger) })
}

// work returns the errors too, so that Lambda counts a failed invocation.
func work(ctx context.Context, builder *index.Builder, logger *slog.Logger) error {
	ctx, cancel := beforeTimeout(ctx)
	defer cancel()
	err := builder.Work(ctx)
	if err != nil {
		logger.ErrorContext(ctx, "index job: a run failed", "error", err)
	}
	return err
}

// beforeTimeout returns a context that is done margin before the function's timeout.
func beforeTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(ctx, deadline.Add(-margin))
	}
	return context.WithCancel(ctx)
}
