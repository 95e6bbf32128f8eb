// Makes decisions with rate-limiter-flexible on DynamoDB. It uses a RateLimiterUnion of two
// limiters, one per rule. Each line of standard input describes a load in JSON. The program
// writes a line when the load is complete.
//
//	node peer.js
'use strict';

const readline = require('node:readline');
const { DynamoDB } = require('@aws-sdk/client-dynamodb');
const { RateLimiterDynamo, RateLimiterUnion } = require('rate-limiter-flexible');

const tableName = 'peer';
const limiters = new Map(); // by endpoint

async function open(endpoint) {
	const storeClient = new DynamoDB({ endpoint, region: 'us-east-1', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } });
	await storeClient.createTable({
		TableName: tableName,
		BillingMode: 'PAY_PER_REQUEST',
		AttributeDefinitions: [{ AttributeName: 'key', AttributeType: 'S' }],
		KeySchema: [{ AttributeName: 'key', KeyType: 'HASH' }],
	}).catch((err) => {
		if (err.name !== 'ResourceInUseException') throw err;
	});
	const rule = (keyPrefix) => new RateLimiterDynamo({
		storeClient, tableName, keyPrefix, tableCreated: true, ttlSet: true, points: 1e9, duration: 1,
	});
	return new RateLimiterUnion(rule('imports'), rule('r_create_event'));
}

async function decide({ endpoint, clients, workers, decisions }) {
	if (!limiters.has(endpoint)) limiters.set(endpoint, await open(endpoint));
	const limiter = limiters.get(endpoint);
	let next = 0;
	const work = async () => {
		for (let n = next++; n < decisions; n = next++) {
			await limiter.consume(`10.0.0.${n % clients}`);
		}
	};
	await Promise.all(Array.from({ length: workers }, work));
}

(async () => {
	for await (const line of readline.createInterface({ input: process.stdin })) {
		await decide(JSON.parse(line));
		console.log('done');
	}
})().catch((err) => {
	console.error(err);
	process.exit(1);
});
