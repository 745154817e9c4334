<?php
// PHP's extension phpredis.
[, $port, $key] = $argv;
$connect = function () use ($port, $key) {
    $client = new Redis();
    $client->connect('127.0.0.1', (int) $port, 10);
    $client->auth($key);
    return $client;
};
$one = $connect();
$other = $connect();
// Since phpredis 5, ping() returns true for PONG.
$pong = $one->ping();
echo $pong === true || $pong === '+PONG' ? 'PONG' : var_export($pong, true), "\n";
$lease = $one->rawCommand('LOCK.ACQUIRE', 'orders', 30000);
echo count($lease), "\n";
$held = $other->rawCommand('LOCK.ACQUIRE', 'orders', 30000);
// phpredis returns false for nil, and an empty array for a nil array.
echo $held === false || $held === [] || $held === null ? 'nil' : var_export($held, true), "\n";
echo $one->rawCommand('LOCK.RELEASE', 'orders', $lease[0]), "\n";
echo $one->rawCommand('LIMIT.TAKE', 'catalog')[0], "\n";
$one->clearLastError();
$one->rawCommand('LOCK.ACQUIRE', 'orders');
echo explode(' ', $one->getLastError() ?? 'none')[0], "\n";
