// Decides by rate-limiter-flexible on DynamoDB: two limiters, one for each rule,
// in the union that it has for that. Each line of standard input is a load, in
// JSON; each line of standard output what it took, in milliseconds.
//
//	node peer.js ENDPOINT TABLE
'use strict';

const readline = require('node:readline');
const { DynamoDB } = require('@aws-sdk/client-dynamodb');
const { RateLimiterDynamo, RateLimiterUnion } = require('rate-limiter-flexible');

const [endpoint, tableName] = process.argv.slice(2);
const client = () => new DynamoDB({ endpoint, region: 'us-east-1', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } });

const limiter = (storeClient) => {
	const rule = (keyPrefix) => new RateLimiterDynamo({
		storeClient, tableName, keyPrefix, tableCreated: true, ttlSet: true, points: 1e9, duration: 1,
	});
	return new RateLimiterUnion(rule('imports'), rule('r_create_event'));
};

// The metered client counts calls and the units that the engine says they
// consumed. An update whose condition fails consumes units as well, one for an
// item of up to 1 KB, though its answer does not say so.
const meter = { calls: 0, units: 0 };
const metered = client();
metered.middlewareStack.add((next) => async (args) => {
	meter.calls++;
	args.input.ReturnConsumedCapacity = 'TOTAL';
	try {
		const result = await next(args);
		meter.units += result.output.ConsumedCapacity.CapacityUnits;
		return result;
	} catch (err) {
		if (err.name === 'ConditionalCheckFailedException') meter.units++;
		throw err;
	}
}, { step: 'initialize' });

const plainLimiter = limiter(client());
const meteredLimiter = limiter(metered);

async function spend(load) {
	const by = load.metered ? meteredLimiter : plainLimiter;
	meter.calls = meter.units = 0;
	const took = new Array(load.decisions);
	let next = 0;
	const work = async () => {
		for (let n = next++; n < load.decisions; n = next++) {
			const began = performance.now();
			await by.consume(load.addresses[n % load.addresses.length]);
			took[n] = performance.now() - began;
		}
	};
	const start = performance.now();
	await Promise.all(Array.from({ length: load.workers }, work));
	return { took, together: performance.now() - start, calls: meter.calls, units: meter.units };
}

(async () => {
	for await (const line of readline.createInterface({ input: process.stdin })) {
		console.log(JSON.stringify(await spend(JSON.parse(line))));
	}
})().catch((err) => {
	console.error(err);
	process.exit(1);
});
