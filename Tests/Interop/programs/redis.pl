# Perl's Redis.
use strict;
use warnings;
use Redis;

my ($port, $key) = @ARGV;
my ($one, $other) = map { Redis->new(server => "127.0.0.1:$port", password => $key) } 1 .. 2;
print $one->ping, "\n";
my $acquire = 'LOCK.ACQUIRE';
my @lease = $one->$acquire('orders', 30000);
print scalar @lease, "\n";
my @held = $other->$acquire('orders', 30000);
print defined $held[0] ? $held[0] : 'nil', "\n";
my $release = 'LOCK.RELEASE';
print scalar $one->$release('orders', $lease[0]), "\n";
my $take = 'LIMIT.TAKE';
my ($limited) = $one->$take('catalog');
print $limited, "\n";
eval { $one->$acquire('orders'); };
my ($word) = $@ =~ /\] (\w+)/;
print $word // $@, "\n";
