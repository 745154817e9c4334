<?php
// PHP's Predis.
require '/usr/share/php/Predis/autoload.php';
[, $port, $key] = $argv;
$connect = fn() => new Predis\Client(['host' => '127.0.0.1', 'port' => (int) $port, 'password' => $key]);
$one = $connect();
$other = $connect();
echo $one->ping(), "\n";
$lease = $one->executeRaw(['LOCK.ACQUIRE', 'orders', '30000']);
echo count($lease), "\n";
echo $other->executeRaw(['LOCK.ACQUIRE', 'orders', '30000']) ?? 'nil', "\n";
echo $one->executeRaw(['LOCK.RELEASE', 'orders', $lease[0]]), "\n";
echo $one->executeRaw(['LIMIT.TAKE', 'catalog'])[0], "\n";
$isError = false;
$error = $one->executeRaw(['LOCK.ACQUIRE', 'orders'], $isError);
echo $isError ? explode(' ', $error)[0] : 'no error', "\n";
