package money

// price is what AWS asks in us-east-1, in USD.
type price struct {
	name    string
	dollars float64
	per     string
	source  string // that it was compared with
}

// The list prices of us-east-1 in November 2026, as docs/deploy.md has them (a
// test compares the two). Each was compared with the source that it names. But
// for X-Ray these are others' words, and older: AWS's own pages fill in their
// prices by script, and could not be read.
var (
	apiGateway   = price{"API Gateway, HTTP API, the first 300 million a month", 1.00, "million requests", "go-cloud.io, 2026; awsforengineers.com, May 2025"}
	lambdaCalls  = price{"Lambda", 0.20, "million requests", "cloudchipr.com, 2024"}
	lambdaTime   = price{"Lambda, arm64", 0.0000133334, "GB-second", "cloudchipr.com, 2024"}
	writeUnits   = price{"DynamoDB on demand", 0.625, "million write units", "airbyte.com, July 2025"}
	readUnits    = price{"DynamoDB on demand", 0.125, "million read units", "airbyte.com, July 2025"}
	logs         = price{"CloudWatch Logs", 0.50, "GB", "go-cloud.io, 2026"}
	traces       = price{"X-Ray", 5.00, "million traces", "aws.amazon.com/xray/pricing"}
	allPrices    = []price{apiGateway, lambdaCalls, lambdaTime, writeUnits, readUnits, logs, traces}
	pricesAsOf   = "November 2026"
	pricesRegion = "us-east-1"
)

// What a request takes besides DynamoDB.
const (
	memoryGB       = 0.25 // of a function, as in template.yaml
	billedMS       = 10   // assumed, where a request makes one or two calls in a row
	billedBatchMS  = 50   // assumed, where it writes 100 events, some at the same time
	logKB          = 1.1  // of the access log and the function's line together, as in docs/deploy.md
	tracedRequests = 0.05 // of all
)

// besides is what a million requests cost apart from DynamoDB.
func besides(milliseconds float64) float64 {
	seconds := 1e6 * milliseconds / 1000
	return apiGateway.dollars + lambdaCalls.dollars + seconds*memoryGB*lambdaTime.dollars + logKB*logs.dollars + tracedRequests*traces.dollars
}
