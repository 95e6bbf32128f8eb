package repository_test

import (
	"strings"
	"time"
)

// Examples of access log lines.
const (
	// If the access log contained paths, a client could add a status to a line in this way.
	forged = `{"service":"sluice-prod","path":"/entity/a","status":503,"integration_error":"x","y":"","status":"404","function_status":"404"}`
	// The client sent a body of 7 to 10 MB, which Lambda rejects with 413 or 500.
	tooLarge413 = `{"route":"POST /create_event","status":"413","lambda_status":"413","function_status":"-","error":"-"}`
	tooLarge500 = `{"route":"POST /create_event","status":"500","lambda_status":"413","function_status":"-","error":"INTERNAL_FAILURE"}`
	served      = `{"route":"GET /entity","status":"200","lambda_status":"200","function_status":"200","error":"-"}`
	unavailable = `{"route":"GET /entity","status":"503","lambda_status":"429","function_status":"-","error":"-"}`
)

// hostile contains scenarios with hostile requests. They must not trigger any alarm that
// rolls back a deployment.
var hostile = []scenario{
	{name: "paths that look like a 5xx in the access log", feed: func(w *world) {
		w.functions(span{0, 30}, 100, request(404, "Allowed"))
		w.gateway(span{0, 30}, 100, 404, forged)
	}},
	{name: "bodies of 7 to 10 MB, rejected with 413", feed: func(w *world) { w.gateway(span{0, 30}, 100, 413, tooLarge413) }},
	{name: "bodies of 7 to 10 MB, rejected with 500", feed: func(w *world) { w.gateway(span{0, 30}, 100, 500, tooLarge500) }},
}

// scenarios returns the scenarios of each alarm of the template.
func scenarios() map[string][]scenario {
	all := map[string][]scenario{
		"ServerErrorsAlarm": append([]scenario{
			{name: "one request in fifty fails for three minutes", fires: true, feed: func(w *world) {
				w.functions(span{0, 60}, 490, request(200, "Allowed"))
				w.functions(span{20, 23}, 10, request(500, "Allowed"))
			}},
			{name: "all five requests fail, every other minute", fires: true, feed: func(w *world) {
				for minute := 20; minute < 30; minute += 2 {
					w.functions(span{minute, minute + 1}, 5, request(503))
				}
			}},
			{name: "one request in a hundred fails", feed: func(w *world) {
				w.functions(span{0, 60}, 990, request(200, "Allowed"))
				w.functions(span{0, 60}, 10, request(500, "Allowed"))
			}},
			{name: "four failures a minute, with no other requests", feed: func(w *world) { w.functions(span{0, 60}, 4, request(500, "Allowed")) }},
			{name: "requests fail for two minutes", feed: func(w *world) { w.functions(span{20, 22}, 100, request(500, "Allowed")) }},
			{name: "errors of clients", feed: func(w *world) { w.functions(span{0, 60}, 100, request(429, "Refused")) }},
		}, hostile...),
		"FunctionFailuresAlarm": append([]scenario{
			{name: "invocations time out", fires: true, feed: func(w *world) { w.functions(span{20, 30}, 3, platform("report", "timeout")) }},
			{name: "two crashes in five minutes", fires: true, feed: func(w *world) {
				w.functions(span{20, 21}, 1, platform("report", "failure"))
				w.functions(span{24, 25}, 1, platform("report", "failure"))
			}},
			{name: "instances do not start", fires: true, feed: func(w *world) {
				w.functions(span{20, 30}, 1, platform("initReport", "error"))
				w.functions(span{20, 30}, 1, platform("report", "error"))
			}},
			{name: "one crash", feed: func(w *world) {
				w.functions(span{20, 21}, 1, platform("runtimeDone", "failure"))
				w.functions(span{20, 21}, 1, platform("report", "failure"))
			}},
			{name: "requests and reports of success", feed: func(w *world) {
				w.functions(span{0, 60}, 100, request(200, "Allowed"))
				w.functions(span{0, 60}, 100, platform("report", "success"))
			}},
		}, hostile...),
		"ChargeFailuresAlarm": append([]scenario{
			{name: "the counters cannot be reached", fires: true, feed: func(w *world) {
				w.functions(span{20, 22}, 5, request(503, "ChargeFailures"))
			}},
			{name: "the counters cannot be reached, with FailureMode open", fires: true, feed: func(w *world) {
				w.functions(span{20, 30}, 100, request(200, "Allowed", "ChargeFailures", "FailedOpen"))
			}},
			{name: "four failures a minute", feed: func(w *world) { w.functions(span{0, 60}, 4, request(503, "ChargeFailures")) }},
			{name: "failures for one minute", feed: func(w *world) { w.functions(span{20, 21}, 100, request(503, "ChargeFailures")) }},
		}, hostile...),
		"LimitsUnreadAlarm": append([]scenario{
			{name: "the rows were never read", fires: true, feed: func(w *world) {
				w.functions(span{20, 30}, 5, request(200, "Allowed", "LimitsUnread"))
			}},
			{name: "the rows are old", fires: true, feed: func(w *world) {
				w.functions(span{20, 22}, 5, request(200, "Allowed", "LimitsStale"))
			}},
			{name: "some instances have old rows, others have none", fires: true, feed: func(w *world) {
				w.functions(span{20, 30}, 3, request(200, "Allowed", "LimitsStale"))
				w.functions(span{20, 30}, 2, request(429, "Refused", "LimitsUnread"))
			}},
			{name: "four requests a minute with old rows", feed: func(w *world) { w.functions(span{0, 60}, 4, request(200, "Allowed", "LimitsStale")) }},
			{name: "requests without rows for one minute", feed: func(w *world) { w.functions(span{20, 21}, 100, request(200, "Allowed", "LimitsUnread")) }},
			{name: "rows that block and observe", feed: func(w *world) {
				w.functions(span{0, 60}, 1000, request(403, "Blocked"))
				w.functions(span{0, 60}, 1000, request(200, "Allowed", "Observed"))
			}},
		}, hostile...),
		"GatewayErrorsAlarm": {
			{name: "Lambda throttles", fires: true, feed: func(w *world) { w.gateway(span{20, 30}, 50, 503, unavailable) }},
			{name: "Lambda throttles while functions fail", fires: true, feed: func(w *world) {
				w.functions(span{20, 30}, 45, request(500, "Allowed"))
				w.gateway(span{20, 30}, 50, 503, unavailable)
			}},
			{name: "the functions' own errors", feed: func(w *world) {
				w.functions(span{20, 30}, 50, request(500, "Allowed"))
				w.gateway(span{20, 30}, 50, 500, served)
			}},
			{name: "four errors a minute", feed: func(w *world) { w.gateway(span{0, 60}, 4, 503, unavailable) }},
			{name: "errors for two minutes", feed: func(w *world) { w.gateway(span{20, 22}, 50, 503, unavailable) }},
		},
		"LatencyAlarm": {
			{name: "two requests in a hundred are slow", fires: true, feed: func(w *world) {
				w.latency(span{0, 60}, 98, 20)
				w.latency(span{20, 23}, 2, 3000)
			}},
			{name: "one request in two hundred is slow", feed: func(w *world) {
				w.latency(span{0, 60}, 199, 20)
				w.latency(span{0, 60}, 1, 3000)
			}},
			{name: "all of 99 requests a minute are slow", feed: func(w *world) { w.latency(span{0, 60}, 99, 3000) }},
			{name: "all requests are slow for two minutes", feed: func(w *world) { w.latency(span{20, 22}, 1000, 3000) }},
		},
		"RefusalsAlarm": {
			{name: "a client does not wait after refusals", fires: true, feed: func(w *world) { w.functions(span{20, 30}, 12001, request(429, "Refused", "LocalRefusals")) }},
			{name: "a client guesses keys and is refused", fires: true, feed: func(w *world) {
				w.functions(span{20, 40}, 6000, request(429, "Refused"))
				w.functions(span{20, 40}, 6001, request(401, "Allowed", "AccessRefusals"))
			}},
			{name: "a client guesses keys", fires: true, feed: func(w *world) { w.functions(span{20, 40}, 12001, request(401, "Allowed", "AccessRefusals")) }},
			{name: "exactly as many refusals as the threshold", feed: func(w *world) { w.functions(span{0, 60}, 12000, request(429, "Refused")) }},
			{name: "refusals for nine minutes", feed: func(w *world) { w.functions(span{20, 29}, 20000, request(429, "Refused")) }},
			{name: "requests that are admitted", feed: func(w *world) { w.functions(span{0, 60}, 20000, request(200, "Allowed")) }},
		},
		"ExportJobFailuresAlarm": {
			{name: "a job fails", fires: true, feed: func(w *world) {
				w.functions(span{20, 21}, 1, jsonLine("export job failed", "workspace", "default", "export_job", "a", "reason", "The file would be larger than 20000 MB."))
			}},
			{name: "jobs succeed, and runs are repeated", feed: func(w *world) {
				w.functions(span{0, 60}, 3, jsonLine("export job succeeded", "export_job", "a", "records", 1))
				w.functions(span{0, 60}, 3, jsonLine("export job failed", "export_job", "a", "error", "throttled"))
			}},
		},
		"ExportQueueAlarm": {
			{name: "no run takes a job", fires: true, feed: func(w *world) {
				w.until = 400
				w.monitor(span{0, 400}, func(minute int) time.Duration {
					if minute < 60 || minute > 200 {
						return 0
					}
					return time.Duration(minute-60) * time.Minute
				})
			}},
			{name: "the monitor stops", fires: true, stays: true, feed: func(w *world) {
				w.monitor(span{0, 60}, func(int) time.Duration { return 0 })
			}},
			{name: "the monitor has not started", feed: func(w *world) { w.until = 60 }},
			{name: "jobs wait for just under an hour", feed: func(w *world) {
				w.until = 400
				w.monitor(span{0, 400}, func(minute int) time.Duration { return time.Duration(minute%60) * time.Minute })
			}},
			{name: "a long job is queued again at the moment of a check", feed: func(w *world) {
				w.until = 400
				w.monitor(span{0, 400}, func(minute int) time.Duration {
					if minute%15 == 5 {
						return 5 * time.Hour
					}
					return 0
				})
			}},
		},
		"ExportStreamAlarm": append([]scenario{
			{name: "every first run of a job is killed, while the worker has no delay", fires: true, feed: func(w *world) {
				for minute := range 120 {
					w.run("ExportStarter", minute, time.Minute, "IteratorAge", float64(minute)*60_000)
					w.run("ExportWorker", minute, time.Minute, "IteratorAge", 1000)
				}
			}},
			{name: "the starter and the worker have a short delay", feed: func(w *world) {
				for minute := range 120 {
					w.run("ExportStarter", minute, time.Minute, "IteratorAge", 2_000_000)
					w.run("ExportWorker", minute, 15*time.Minute, "IteratorAge", 2_000_000)
				}
			}},
		}, streamScenarios("ExportWorker")...),
		"ExportWorkerErrorsAlarm": append([]scenario{
			{name: "three runs fail at once", fires: true, feed: func(w *world) {
				for minute := 20; minute < 23; minute++ {
					w.run("ExportWorker", minute, 0, "Errors", 1)
				}
			}},
			{name: "a first run and two others fail", fires: true, feed: func(w *world) {
				w.run("ExportStarter", 20, 0, "Errors", 1)
				w.run("ExportWorker", 21, 0, "Errors", 1)
				w.run("ExportWorker", 22, 15*time.Minute, "Errors", 1)
			}},
			{name: "three first runs fail", fires: true, feed: func(w *world) {
				for minute := 20; minute < 23; minute++ {
					w.run("ExportStarter", minute, 0, "Errors", 1)
				}
			}},
			{name: "a run fails every forty minutes", feed: func(w *world) {
				for minute := 0; minute < 400; minute += 40 {
					w.run("ExportWorker", minute, 0, "Errors", 1)
				}
			}},
			{name: "runs succeed", feed: func(w *world) {
				for minute := range 60 {
					w.run("ExportWorker", minute, time.Minute, "Errors", 0)
				}
			}},
		}, errorScenarios("ExportWorker")...),
		"ExportDeadLetterAlarm":  deadLetterScenarios("ExportDeadLetterQueue"),
		"ErasureDeadLetterAlarm": deadLetterScenarios("ErasureDeadLetterQueue"),
		"ErasureJobFailuresAlarm": {
			{name: "a job fails", fires: true, feed: func(w *world) {
				w.functions(span{20, 21}, 1, jsonLine("erasure job failed", "workspace", "default", "erasure_job", "ada", "reason", "The erasure failed"))
			}},
			{name: "runs end and are repeated", feed: func(w *world) {
				w.functions(span{0, 60}, 3, jsonLine("run of an erasure job ended", "erasure_job", "ada", "events_erased", 1))
				w.functions(span{0, 60}, 3, jsonLine("erasure job failed", "erasure_job", "ada", "error", "throttled"))
			}},
		},
		"ErasureStreamAlarm":       streamScenarios("ErasureWorker"),
		"ErasureWorkerErrorsAlarm": errorScenarios("ErasureWorker"),
		"WriteUnitsAlarm":          unitScenarios("Write", 5_000_000),
		"ReadUnitsAlarm":           unitScenarios("Read", 20_000_000),
	}
	for _, table := range []string{"CountersTable", "EntitiesTable", "EventsTable", "KeysTable", "LimitsTable", "ExportJobsTable", "ErasureJobsTable"} {
		all[strings.TrimSuffix(table, "Table")+"ThrottledAlarm"] = throttleScenarios(table)
	}
	return all
}

// streamScenarios returns the scenarios of an alarm on the age of the changes that a worker
// reads from a stream.
func streamScenarios(worker string) []scenario {
	return []scenario{
		{name: "every run for a job is killed after 15 minutes", fires: true, feed: func(w *world) {
			for minute := 0; minute < 120; minute += 15 {
				w.run(worker, minute, 15*time.Minute, "IteratorAge", float64(minute)*60_000)
			}
		}},
		{name: "jobs wait for each other", feed: func(w *world) {
			for minute := range 120 {
				w.run(worker, minute, 15*time.Minute, "IteratorAge", 3_600_000)
			}
		}},
	}
}

// errorScenarios returns the scenarios of an alarm on failed runs of a worker.
func errorScenarios(worker string) []scenario {
	return []scenario{
		{name: "three runs in a row are killed after 15 minutes", fires: true, feed: func(w *world) {
			for minute := 20; minute < 65; minute += 15 {
				w.run(worker, minute, 15*time.Minute, "Errors", 1)
			}
		}},
		{name: "two runs fail", feed: func(w *world) {
			w.run(worker, 20, 0, "Errors", 1)
			w.run(worker, 21, 15*time.Minute, "Errors", 1)
		}},
	}
}

// deadLetterScenarios returns the scenarios of the alarm on a dead-letter queue.
func deadLetterScenarios(queue string) []scenario {
	visible := func(w *world, s span, n float64) {
		w.metric(s, "AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName="+queue+".QueueName", n)
	}
	return []scenario{
		{name: "Lambda discards the stream record of a job", fires: true, feed: func(w *world) {
			visible(w, span{20, 200}, 1)
			visible(w, span{200, 300}, 0)
		}},
		{name: "an empty queue", feed: func(w *world) { visible(w, span{0, 60}, 0) }},
	}
}

// unitScenarios returns the scenarios of an alarm with an hourly budget for consumed units.
func unitScenarios(kind string, budget float64) []scenario {
	consumed := "Consumed" + kind + "CapacityUnits"
	const table, index = "TableName=EventsTable", "GlobalSecondaryIndexName=by_entity,TableName=EventsTable"
	return []scenario{
		{name: "a flood for ten minutes", fires: true, feed: func(w *world) { w.metric(span{20, 30}, "AWS/DynamoDB", consumed, table, budget/8) }},
		{name: "a table and an index together exceed the budget in an hour", fires: true, feed: func(w *world) {
			w.metric(span{0, 120}, "AWS/DynamoDB", consumed, table, budget/100)
			w.metric(span{0, 120}, "AWS/DynamoDB", consumed, index, budget/100)
		}},
		{name: "exactly the budget", feed: func(w *world) { w.metric(span{0, 300}, "AWS/DynamoDB", consumed, table, budget/60) }},
		{name: "a flood for five minutes", feed: func(w *world) { w.metric(span{20, 25}, "AWS/DynamoDB", consumed, table, budget/8) }},
		{name: "no demand", feed: func(w *world) { w.until = 300 }},
	}
}

// throttleScenarios returns the scenarios of the alarm on a table's throttled calls.
func throttleScenarios(table string) []scenario {
	throttled := func(w *world, s span, kind string, n float64) {
		w.metric(s, "AWS/DynamoDB", kind+"ThrottleEvents", "TableName="+table, n)
	}
	return []scenario{
		{name: "throttled writes for three minutes", fires: true, feed: func(w *world) { throttled(w, span{20, 23}, "Write", 10) }},
		{name: "throttled reads and writes together", fires: true, feed: func(w *world) {
			throttled(w, span{20, 30}, "Write", 5)
			throttled(w, span{20, 30}, "Read", 5)
		}},
		{name: "nine throttled reads a minute", feed: func(w *world) { throttled(w, span{20, 60}, "Read", 9) }},
		{name: "throttled writes for two minutes", feed: func(w *world) { throttled(w, span{20, 22}, "Write", 1000) }},
		{name: "no throttled calls", feed: func(w *world) { w.until = 60 }},
	}
}
